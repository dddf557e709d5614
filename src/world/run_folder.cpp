#include "world/run_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/text.hpp"

namespace rhizome::world {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view processes = "processes";
constexpr std::size_t bytes_max = 1 << 16;  // of a file that is read
constexpr std::size_t reason_max = 4000;
constexpr int names_max = 1000;  // of runs that begin in the same second

std::error_code last_error() { return {errno, std::generic_category()}; }

ConfigError unusable(const std::string& path, const std::string& reason, const std::string& hint) {
    return ConfigError{"run folder " + visible(path) + " (" + reason + "), " + hint};
}

ConfigError unwritable(const std::string& path, const std::error_code& problem) {
    return unusable(path, "cannot be written: " + problem.message(),
                    "name one in a place where files can be written");
}

/// Complete and on the disk, or a problem and whatever was left of it.
std::error_code write_file(const std::string& path, std::string_view text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return last_error();
    std::error_code problem;
    while (!text.empty() && !problem) {
        const auto count = ::write(file, text.data(), text.size());
        if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
        if (count < 0 && errno != EINTR) problem = last_error();
    }
    if (!problem && ::fsync(file) != 0) problem = last_error();
    if (::close(file) != 0 && !problem) problem = last_error();
    return problem;
}

/// Nothing if it cannot be read or is no page of text.
std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::nullopt;
    std::string text(bytes_max, '\0');
    std::size_t size = 0;
    ssize_t count = 0;
    do {
        count = ::read(file, text.data() + size, bytes_max - size);
        if (count > 0) size += static_cast<std::size_t>(count);
    } while (count > 0 || (count < 0 && errno == EINTR));
    ::close(file);  // opened for reading: nothing can be lost
    if (count < 0 || size == bytes_max) return std::nullopt;
    text.resize(size);
    return text;
}

/// What follows `word` and a blank, up to the end of that line.
std::string value_of(std::string_view word, const std::string& text) {
    std::istringstream lines{text};
    const std::string begin = std::string{word} + " ";
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(begin)) return line.substr(begin.size());
    }
    return "";
}

std::string to_text(const Ending& ending) {
    return "code " + std::to_string(static_cast<int>(ending.code)) + "\nreason " + ending.reason +
           "\n";
}

std::string to_text(const Recorded& process) {
    return "host " + process.host + "\npid " + std::to_string(process.pid) + "\nstarted " +
           std::to_string(process.started) + "\n";
}

/// Strict in the simplest way: a text is one if writing its content again gives the same text.
std::optional<Ending> parse_ending(const std::string& text) {
    const auto code = parse_integer(value_of("code", text));
    if (!code || *code < 0 || *code > static_cast<int>(ExitCode::unsaved)) return std::nullopt;
    const Ending ending{static_cast<ExitCode>(*code), value_of("reason", text)};
    return to_text(ending) == text ? std::optional{ending} : std::nullopt;
}

std::optional<Recorded> parse_recorded(const std::string& name, const std::string& text) {
    const auto pid = parse_integer(value_of("pid", text));
    const auto started = parse_unsigned(value_of("started", text));
    if (!pid || *pid <= 0 || !started) return std::nullopt;
    const Recorded process{name, value_of("host", text), static_cast<pid_t>(*pid), *started};
    return to_text(process) == text ? std::optional{process} : std::nullopt;
}

/// Whoever makes this folder has the run; there is only one.
void claim(const std::string& path) {
    const std::string folder = path + "/" + std::string{processes};
    if (::mkdir(folder.c_str(), 0777) == 0) return;
    if (errno != EEXIST) throw unwritable(path, last_error());
    throw unusable(path, "another run has just begun in it", "name a folder of its own");
}

/// Without links nothing could be decided by the first who writes it.
void expect_links(const std::string& path) {
    const std::string from = path + "/.trial";
    const std::string to = path + "/.trial.link";
    if (const auto problem = write_file(from, "")) throw unwritable(path, problem);
    std::error_code problem;
    if (::link(from.c_str(), to.c_str()) != 0) problem = last_error();
    ::unlink(from.c_str());
    ::unlink(to.c_str());
    if (problem) {
        throw unusable(path, "its file system makes no hard links: " + problem.message(),
                       "name one on another file system");
    }
}

/// Without a slash at its end, and good in every working folder.
std::string absolute(const std::string& path) {
    std::string result = fs::absolute(path).lexically_normal().string();
    if (result.size() > 1 && result.ends_with('/')) result.pop_back();
    return result;
}

void make_folders(const fs::path& path) {
    std::error_code problem;
    fs::create_directories(path, problem);
    if (problem) throw unwritable(path.string(), problem);
}

std::string time_text(std::chrono::system_clock::time_point now) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm parts{};
    ENSURE(gmtime_r(&seconds, &parts) != nullptr);
    std::array<char, 64> text{};
    ENSURE(std::strftime(text.data(), text.size(), "%Y-%m-%d_%H-%M-%S", &parts) > 0);
    return text.data();
}

}  // namespace

RunFolder::RunFolder(std::string path)
    : path_{std::move(path)}, stop_path_{path_ + "/stop"}, host_{host_name()} {}

std::string RunFolder::place_of(std::string_view name) const {
    return path_ + "/" + std::string{name};
}

std::string RunFolder::aside_of(std::string_view name) const {
    return path_ + "/." + std::string{name} + "." + host_ + "." + std::to_string(::gettid());
}

RunFolder RunFolder::make(const std::string& path) {
    const RunFolder folder{absolute(path)};
    make_folders(folder.path_);
    std::error_code problem;
    const bool empty = fs::is_empty(folder.path_, problem);
    if (problem) throw unwritable(folder.path_, problem);
    if (!empty) {
        throw unusable(folder.path_, "is not empty", "name one that is empty or not there yet");
    }
    claim(folder.path_);
    expect_links(folder.path_);
    return folder;
}

RunFolder RunFolder::make_below(const std::string& parent,
                                std::chrono::system_clock::time_point now) {
    make_folders(parent);
    const std::string path = absolute(parent) + "/" + time_text(now);
    for (int number = 1; number <= names_max; ++number) {
        const std::string taken = number == 1 ? path : path + "_" + std::to_string(number);
        if (::mkdir(taken.c_str(), 0777) == 0) return make(taken);
        if (errno != EEXIST) throw unwritable(taken, last_error());
    }
    throw unusable(path, "a thousand runs began in this second", "name another folder");
}

RunFolder RunFolder::open(const std::string& path) {
    const RunFolder folder{absolute(path)};
    const std::string hint = "name the one that `rhizome run` tells when it begins";
    std::error_code problem;
    if (!fs::is_directory(folder.path_, problem)) {
        throw unusable(folder.path_, "is no folder", hint);
    }
    if (!fs::is_directory(folder.place_of(processes), problem)) {
        throw unusable(folder.path_, "there is no run in it", hint);
    }
    if (::access(folder.path_.c_str(), W_OK | X_OK) != 0) {
        throw unwritable(folder.path_, last_error());
    }
    return folder;
}

std::error_code RunFolder::ask_to_stop() const {
    if (stop_asked()) return {};
    return write_file(stop_path_, "");
}

bool RunFolder::stop_asked() const { return ::access(stop_path_.c_str(), F_OK) == 0; }

Marked RunFolder::finish(ExitCode code, std::string_view reason) const {
    const std::string aside = aside_of("finished");
    Marked result;
    result.problem =
        write_file(aside, to_text(Ending{code, visible(reason).substr(0, reason_max)}));
    if (!result.problem) {
        if (::link(aside.c_str(), place_of("finished").c_str()) != 0) result.problem = last_error();
        // A file server that was asked twice may say of our own link that it is there already.
        struct stat facts{};
        const bool linked = ::stat(aside.c_str(), &facts) == 0 && facts.st_nlink > 1;
        result.mine = !result.problem || linked;
        if (result.mine || result.problem == std::errc::file_exists) result.problem.clear();
    }
    ::unlink(aside.c_str());
    return result;
}

std::optional<Ending> RunFolder::finished() const {
    const auto text = read_file(place_of("finished"));
    if (!text) return std::nullopt;
    const Ending damaged{ExitCode::unfinished,
                         "its marker " + place_of("finished") + " is damaged"};
    return parse_ending(*text).value_or(damaged);
}

std::error_code RunFolder::record_process(std::string_view name, pid_t pid) const {
    ENSURE(!name.empty() && name.front() != '.' && name.find('/') == name.npos);
    const auto process = find_process(pid);
    if (!process) return std::make_error_code(std::errc::no_such_process);
    const std::string aside = aside_of(name);
    const std::string place = place_of(processes) + "/" + std::string{name};
    std::error_code problem =
        write_file(aside, to_text(Recorded{std::string{name}, host_, pid, process->started}));
    if (!problem && ::rename(aside.c_str(), place.c_str()) != 0) problem = last_error();
    if (problem) ::unlink(aside.c_str());
    return problem;
}

std::vector<Recorded> RunFolder::recorded() const {
    std::vector<Recorded> found;
    std::error_code problem;
    for (fs::directory_iterator entry{place_of(processes), problem}, end; !problem && entry != end;
         entry.increment(problem)) {
        const std::string name = entry->path().filename().string();
        const auto text = read_file(entry->path().string());
        if (!text) continue;
        if (auto process = parse_recorded(name, *text)) found.push_back(std::move(*process));
    }
    std::sort(found.begin(), found.end(),
              [](const Recorded& a, const Recorded& b) { return a.name < b.name; });
    return found;
}

std::vector<Recorded> RunFolder::living() const {
    std::vector<Recorded> found;
    for (Recorded& process : recorded()) {
        if (process.host != host_) continue;
        const auto now = find_process(process.pid);
        if (now && now->started == process.started) found.push_back(std::move(process));
    }
    return found;
}

std::string RunFolder::other_hosts() const {
    std::set<std::string> hosts;
    for (const Recorded& process : recorded()) hosts.insert(process.host);
    hosts.erase(host_);
    std::string list;
    for (const std::string& host : hosts) list += (list.empty() ? "" : ", ") + visible(host);
    return list;
}

}  // namespace rhizome::world
