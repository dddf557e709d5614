#include "core/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace rhizome {
namespace {

using testing::ElementsAre;

TEST(Log, GivesItsSinkOneLineWithoutItsEndForEachCall) {
    std::vector<std::string> lines;
    const Log log{[&](std::string_view line) { lines.emplace_back(line); }};
    log.info("step 1, loss 5.5");
    log.warn("the disk is full");
    log.error("lanes=3");
    log.info("");
    EXPECT_THAT(lines,
                ElementsAre("step 1, loss 5.5", "warning: the disk is full", "error: lanes=3", ""));
}

TEST(Log, LetsNoTextBreakItsLine) {
    std::string line;
    const Log log{[&](std::string_view text) { line = text; }};
    log.error("no file a\nb\x1b[2J");
    EXPECT_EQ(line, "error: no file a\\x0ab\\x1b[2J");
}

/// What is written to the second comes out of the first, message by message.
class Datagrams {
  public:
    Datagrams() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends_.data()), 0); }
    ~Datagrams() {
        for (const int end : ends_) ::close(end);
    }
    Datagrams(const Datagrams&) = delete;
    Datagrams& operator=(const Datagrams&) = delete;

    [[nodiscard]] int writer() const { return ends_[1]; }
    /// What one write gave.
    [[nodiscard]] std::string read() const {
        std::array<char, 1000> buffer{};
        const auto count = ::recv(ends_[0], buffer.data(), buffer.size(), MSG_DONTWAIT);
        return count < 0 ? "nothing" : std::string{buffer.data(), static_cast<std::size_t>(count)};
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

TEST(LogTo, WritesEachLineWithItsEndInOneWrite) {
    const Datagrams ends;
    const Log log = log_to(ends.writer());
    log.info("one");
    log.warn("two");
    log.info("");
    EXPECT_EQ(ends.read(), "one\n");
    EXPECT_EQ(ends.read(), "warning: two\n");
    EXPECT_EQ(ends.read(), "\n");
    EXPECT_EQ(ends.read(), "nothing");
}

TEST(LogTo, FinishesALineThatSignalsInterrupt) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(::pipe(pipe_ends.data()), 0);
    struct sigaction action{};
    struct sigaction old_action{};
    action.sa_handler = [](int) {};  // and no SA_RESTART: a blocked write returns early
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &old_action), 0);
    const std::string line(300000, 'x');  // more than a pipe holds
    std::thread writer{[&] {
        log_to(pipe_ends[1]).info(line);
        ::close(pipe_ends[1]);
    }};
    std::string all;
    std::array<char, 10000> buffer{};
    for (ssize_t count = 0; (count = ::read(pipe_ends[0], buffer.data(), buffer.size())) > 0;) {
        all.append(buffer.data(), static_cast<std::size_t>(count));
        ::pthread_kill(writer.native_handle(), SIGUSR1);
    }
    writer.join();
    ::close(pipe_ends[0]);
    ::sigaction(SIGUSR1, &old_action, nullptr);
    EXPECT_EQ(all.size(), line.size() + 1);
    EXPECT_EQ(all, line + "\n");
}

TEST(LogTo, ReturnsWhenNobodyReadsAnyMore) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(::pipe(pipe_ends.data()), 0);
    ::close(pipe_ends[0]);
    const auto old_handler = std::signal(SIGPIPE, SIG_IGN);  // else it ends the process
    const Log log = log_to(pipe_ends[1]);
    log.info("lost");
    log.info("lost as well");
    (void)std::signal(SIGPIPE, old_handler);
    ::close(pipe_ends[1]);
    log.info("to a descriptor that is closed");
}

}  // namespace
}  // namespace rhizome
