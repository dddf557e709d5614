// process_tree_stub STOPPED_MS STUCK_MS: a rank under a watch with these bounds, which does what
// the lines of its input tell it. First it prints its number and that of its watch; proxy, watch
// and rank share input and output, and only the rank uses them.
//
//   ping         prints pong
//   exit CODE    ends
//   raise SIGNAL ends by it
//   hang         gives no beat any more, and does nothing else
//   wait MS      says that it waits for so long at most, and then nothing until the next line
//   limit        prints its limit for core files
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "world/process_tree.hpp"

namespace rhizome::world {
namespace {

constexpr int beat_ms = 2;

Nanoseconds milliseconds(const std::string& text) {
    return std::chrono::milliseconds{parse_integer(text).value_or(0)};
}

void print(const std::string& line) { write_all(STDOUT_FILENO, line + "\n"); }

/// Whether a line, or the end of the input, is there within that time; -1 is for ever.
bool is_there(int at_most_ms) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return poll(&input, 1, at_most_ms) == 1;
}

std::string read_line() {
    std::string line;
    for (char letter = 0; read(STDIN_FILENO, &letter, 1) == 1 && letter != '\n';) line += letter;
    return line;
}

void obey(const std::string& line, std::optional<Pulse::Waiting>& waiting, Pulse& pulse) {
    std::istringstream words{line};
    std::string what;
    std::string value;
    words >> what >> value;
    if (what == "ping") print("pong");
    if (what == "exit") _exit(static_cast<int>(parse_integer(value).value_or(1)));
    if (what == "raise") raise(static_cast<int>(parse_integer(value).value_or(0)));
    if (what == "hang") {
        while (true) pause();
    }
    if (what == "wait") waiting.emplace(pulse, milliseconds(value));
    if (what == "limit") {
        rlimit limit{};
        getrlimit(RLIMIT_CORE, &limit);
        print(std::to_string(limit.rlim_cur));
    }
    if (what.empty()) _exit(9);  // the test is gone
}

}  // namespace
}  // namespace rhizome::world

int main(int count, char** arguments) {
    using namespace rhizome::world;
    ENSURE(count == 3);
    const auto pulse =
        split_into_watched_rank({milliseconds(arguments[1]), milliseconds(arguments[2])});
    print(std::to_string(getpid()) + " " + std::to_string(getppid()));
    std::optional<Pulse::Waiting> waiting;
    while (true) {
        if (!is_there(waiting ? -1 : beat_ms)) {
            pulse->beat();
            continue;
        }
        waiting.reset();
        obey(read_line(), waiting, *pulse);
    }
}
