// How a run comes to have a folder.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "core/text.hpp"
#include "world/process_table.hpp"
#include "world/run_files.hpp"
#include "world/run_folder.hpp"

namespace rhizome::world {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view lock_name = "lock";
constexpr std::string_view former = "former";
constexpr int names_max = 1000;  // of runs that begin in the same second

/// Whoever makes this folder has the run; there is only one, even where there are no locks.
void claim(const std::string& path) {
    const std::string folder = path + "/" + std::string{processes_name};
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

/// A folder with other people's files is nobody's to use.
void expect_no_other_files(const std::string& path) {
    std::error_code problem;
    // In this order: a lock that comes in between is one that the second question finds.
    const bool empty = fs::is_empty(path, problem);
    if (problem) throw unwritable(path, problem);
    const auto has = [&](std::string_view name) {
        return fs::exists(path + "/" + std::string{name}, problem);
    };
    if (empty || has(lock_name) || has(processes_name)) return;
    throw unusable(path, "is not empty",
                   has("states") ? "name another one, and --from one of the states in this one"
                                 : "name one that is empty, not there yet, or a run's");
}

bool has_more_than_a_lock(const std::string& path) {
    std::error_code problem;
    fs::directory_iterator entry{path, problem};
    for (const fs::directory_iterator end; !problem && entry != end; entry.increment(problem)) {
        if (entry->path().filename() != lock_name) return true;
    }
    if (problem) throw unwritable(path, problem);
    return false;
}

/// PARENT/TIME-1, or with the first number that is free.
std::string make_numbered_folder(const std::string& parent) {
    make_folders(parent);
    const std::string begin = parent + "/" + time_text(std::chrono::system_clock::now()) + "-";
    for (int number = 1; number <= names_max; ++number) {
        const std::string path = begin + std::to_string(number);
        if (::mkdir(path.c_str(), 0777) == 0) return path;
        if (errno != EEXIST) throw unwritable(path, last_error());
    }
    throw unusable(parent, "a thousand runs began in this second", "wait for the next");
}

/// What processes that were killed left half written.
void remove_asides(const std::string& path) {
    std::error_code problem;
    fs::directory_iterator entry{path, problem};
    for (const fs::directory_iterator end; !problem && entry != end; entry.increment(problem)) {
        const std::string name = entry->path().filename().string();
        for (const std::string_view begin :
             {".finished.", ".launcher.", ".mpirun.", ".rank.", ".epoch-", ".trial"}) {
            if (name.starts_with(begin)) ::unlink(entry->path().c_str());
        }
    }
}

}  // namespace

std::string RunFolder::new_run_name() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return host_name() + "." + std::to_string(::getpid()) + "." +
           std::to_string(std::chrono::nanoseconds{now}.count());
}

RunFolder RunFolder::make(const std::string& path, const std::string& run) {
    RunFolder folder{absolute(path)};
    make_folders(folder.path_);
    expect_no_other_files(folder.path_);
    folder.lock_for_a_start();
    folder.taken_over_ = has_more_than_a_lock(folder.path_);
    if (folder.taken_over_) folder.put_former_run_away();
    claim(folder.path_);
    expect_links(folder.path_);
    folder.run_ = run;
    if (const auto problem = folder.lock_.set_name(run)) throw unwritable(folder.path_, problem);
    folder.keep_lock();
    return folder;
}

void RunFolder::lock_for_a_start() {
    if (const auto problem = lock_.open(place_of(lock_name))) throw unwritable(path_, problem);
    const std::error_code problem = lock_.hold(RunLock::Kind::exclusive);
    if (!problem) return;
    if (is_taken(problem)) throw busy();
    if (!has_no_locks(problem)) throw unwritable(path_, problem);
    lock_problem_ = problem;
    if (!living().empty()) throw busy();  // all that can be known then
}

/// In an order in which whoever breaks off leaves the same task to the next. A `finished` is for
/// people; of the rest nothing is of use any more.
void RunFolder::put_former_run_away() const {
    std::error_code problem;
    if (fs::exists(place_of("finished"), problem)) {
        const std::string folder = make_numbered_folder(place_of(former));
        fs::rename(place_of("finished"), folder + "/finished", problem);
    }
    if (!problem) fs::remove(stop_path_, problem);
    if (!problem) fs::remove(save_path_, problem);
    if (!problem) fs::remove_all(place_of(epochs_name), problem);
    if (!problem) fs::remove_all(place_of(processes_name), problem);
    if (problem) throw unwritable(path_, problem);
    remove_asides(path_);
}

/// From the exclusive lock to the one that all of the run hold.
void RunFolder::keep_lock() {
    const std::error_code problem = lock_.hold(RunLock::Kind::shared);
    // Somebody got it in between.
    if (is_taken(problem)) throw busy();
    if (problem && !has_no_locks(problem)) throw unwritable(path_, problem);
}

ConfigError RunFolder::busy() const {
    std::vector<Recorded> those = living();
    if (those.empty()) {
        those = recorded();
        std::erase_if(those, [this](const Recorded& process) { return process.host == host_; });
    }
    std::string who;
    if (!those.empty()) {  // by name: the launcher, if there is one
        who = ": " + those.front().name + " pid " + std::to_string(those.front().pid) +
              " on host " + those.front().host;
    }
    return unusable(path_, "a run is going on in it" + who,
                    "wait for its end, stop it with `rhizome stop " + visible(path_) +
                        "`, or name another folder");
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
    RunFolder folder{absolute(path)};
    const std::string hint = "name the one that `rhizome run` tells when it begins";
    std::error_code problem;
    if (!fs::is_directory(folder.path_, problem)) {
        throw unusable(folder.path_, "is no folder", hint);
    }
    if (!fs::is_directory(folder.place_of(processes_name), problem)) {
        throw unusable(folder.path_, "there is no run in it", hint);
    }
    if (::access(folder.path_.c_str(), W_OK | X_OK) != 0) {
        throw unwritable(folder.path_, last_error());
    }
    return folder;
}

RunFolder RunFolder::join(const std::string& path, const std::string& run) {
    RunFolder folder = open(path);
    if (const auto problem = folder.lock_.open(folder.place_of(lock_name))) {
        throw unwritable(folder.path_, problem);
    }
    const std::error_code problem = folder.lock_.hold(RunLock::Kind::shared);
    if (has_no_locks(problem)) folder.lock_problem_ = problem;
    const bool locked = !problem || has_no_locks(problem);
    if (!locked && !is_taken(problem)) throw unwritable(folder.path_, problem);
    // Held, the name stays what it is.
    if (!locked || folder.lock_.name() != run) {
        throw unusable(folder.path_, "another run has it by now", "start this one again elsewhere");
    }
    folder.run_ = run;
    return folder;
}

}  // namespace rhizome::world
