#include "world/process_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::world {

std::optional<Process> find_process(pid_t pid) {
    std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
    std::string line;
    std::getline(file, line);
    // The second word is the program's name in brackets, and may hold blanks and brackets.
    const std::size_t name_end = line.rfind(')');
    if (name_end == line.npos) return std::nullopt;
    std::istringstream words{line.substr(name_end + 1)};  // proc(5): the third and those after it
    char state = 0;
    pid_t parent = 0;
    words >> state >> parent;
    std::string ignored;
    for (int word = 5; word < 22; ++word) words >> ignored;
    std::uint64_t started = 0;
    words >> started;
    if (words.fail() || state == 'Z' || state == 'X') return std::nullopt;
    return Process{pid, parent, started};
}

void kill_process(pid_t pid, std::uint64_t started) {
    const auto process = find_process(pid);
    if (process && process->started == started) ::kill(pid, SIGKILL);
}

std::vector<Process> find_descendants() {
    std::vector<Process> all;
    std::error_code problem;
    for (std::filesystem::directory_iterator entry{"/proc", problem}, end; !problem && entry != end;
         entry.increment(problem)) {
        const auto pid = parse_integer(entry->path().filename().string());
        if (!pid) continue;
        if (const auto process = find_process(static_cast<pid_t>(*pid))) all.push_back(*process);
    }
    std::vector<pid_t> ancestors{getpid()};
    std::vector<Process> found;
    for (std::size_t next = 0; next < ancestors.size(); ++next) {
        for (const Process& process : all) {
            if (process.parent != ancestors[next]) continue;
            found.push_back(process);
            ancestors.push_back(process.pid);
        }
    }
    return found;
}

std::string host_name() {
    std::array<char, 256> name{};
    ENSURE(gethostname(name.data(), name.size() - 1) == 0);
    return name.data();
}

}  // namespace rhizome::world
