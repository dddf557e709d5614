#include "world/run_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "core/text.hpp"
#include "world/process_table.hpp"
#include "world/run_files.hpp"

namespace rhizome::world {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t reason_max = 4000;

}  // namespace

RunFolder::RunFolder(std::string path)
    : path_{std::move(path)},
      stop_path_{path_ + "/stop"},
      save_path_{path_ + "/save"},
      host_{host_name()} {}

std::string RunFolder::place_of(std::string_view name) const {
    return path_ + "/" + std::string{name};
}

std::string RunFolder::aside_of(std::string_view name) const {
    return path_ + "/." + std::string{name} + "." + host_ + "." + std::to_string(::gettid());
}

std::error_code RunFolder::ask_to_stop() const {
    if (stop_asked()) return {};
    return write_file(stop_path_, "");
}

bool RunFolder::stop_asked() const { return ::access(stop_path_.c_str(), F_OK) == 0; }

std::error_code RunFolder::ask_to_save() const {
    if (save_asked()) return {};
    return write_file(save_path_, "");
}

bool RunFolder::take_save_word() const { return ::unlink(save_path_.c_str()) == 0; }

bool RunFolder::save_asked() const { return ::access(save_path_.c_str(), F_OK) == 0; }

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

std::optional<std::string> RunFolder::open_epoch(Epoch epoch,
                                                 const std::vector<WorkerId>& members) const {
    const std::string name = std::to_string(epoch.value());
    const std::string place = place_of(epochs_name) + "/" + name;
    std::string record = "members";
    for (const WorkerId member : members) record += " " + std::to_string(member.value());
    record += "\n";
    if (!read_file(place)) {
        const std::string aside = aside_of("epoch-" + name);
        std::error_code problem = write_file(aside, record);
        ::mkdir(place_of(epochs_name).c_str(), 0777);
        if (!problem && ::link(aside.c_str(), place.c_str()) != 0) problem = last_error();
        ::unlink(aside.c_str());
        if (problem && problem != std::errc::file_exists) {
            return "epoch " + name + " cannot be opened in " + path_ + ": " + problem.message();
        }
    }
    const auto opened = read_file(place);
    if (opened == record) return std::nullopt;
    return "epoch " + name + " of " + path_ +
           " was opened by others: " + visible(opened.value_or("its record cannot be read"));
}

std::error_code RunFolder::leave(Epoch last, WorkerId member, std::string_view reason) const {
    ::mkdir(place_of(epochs_name).c_str(), 0777);
    return write_file(place_of(epochs_name) + "/left." + std::to_string(last.value()) + "." +
                          std::to_string(member.value()),
                      visible(reason).substr(0, reason_max));
}

std::optional<std::string> RunFolder::left_behind() const {
    std::int64_t newest = 0;  // epoch, with a record
    std::optional<std::pair<std::int64_t, std::string>> left;
    std::error_code problem;
    for (fs::directory_iterator entry{place_of(epochs_name), problem}, end;
         !problem && entry != end; entry.increment(problem)) {
        const std::string name = entry->path().filename().string();
        constexpr std::string_view word = "left.";
        const bool is_left = name.starts_with(word);
        const std::size_t begin = is_left ? word.size() : 0;
        const auto number = parse_integer(name.substr(begin, name.find('.', begin) - begin));
        if (!number) continue;
        if (!is_left) {
            newest = std::max(newest, *number);
        } else if (!left || left->first < *number) {
            left.emplace(*number, read_file(entry->path().string()).value_or("without a word"));
        }
    }
    if (!left || left->first < newest) return std::nullopt;
    return left->second;
}

std::error_code RunFolder::record_process(std::string_view name, pid_t pid) const {
    ENSURE(!name.empty() && name.front() != '.' && name.find('/') == name.npos);
    const auto process = find_process(pid);
    if (!process) return std::make_error_code(std::errc::no_such_process);
    const std::string aside = aside_of(name);
    const std::string place = place_of(processes_name) + "/" + std::string{name};
    std::error_code problem =
        write_file(aside, to_text(Recorded{std::string{name}, host_, pid, process->started}));
    if (!problem && ::rename(aside.c_str(), place.c_str()) != 0) problem = last_error();
    if (problem) ::unlink(aside.c_str());
    return problem;
}

std::vector<Recorded> RunFolder::recorded() const {
    std::vector<Recorded> found;
    std::error_code problem;
    for (fs::directory_iterator entry{place_of(processes_name), problem}, end;
         !problem && entry != end; entry.increment(problem)) {
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
