#include "world/run_lock.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unit/world_run_home.hpp"
#include "world/process_table.hpp"
#include "world/run_folder.hpp"

namespace rhizome::world {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = RunLock::Kind;

/// The number of a child whose `body` writes its answer there; it lives on until it is killed.
pid_t fork_and_ask(int answers, const std::function<char()>& body) {
    const pid_t pid = fork();
    ENSURE(pid >= 0);
    if (pid != 0) return pid;
    char answer = '?';
    try {
        answer = body();
    } catch (...) {
        answer = '!';
    }
    static_cast<void>(!write(answers, &answer, 1));
    while (true) pause();
}

class Pipe {
  public:
    Pipe() { ENSURE(pipe(ends_.data()) == 0); }
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    void close_end(std::size_t end) {
        if (ends_.at(end) >= 0) ::close(ends_.at(end));
        ends_.at(end) = -1;
    }
    [[nodiscard]] int to() const { return ends_[1]; }
    /// The next character; 0 if nobody has the other end any more.
    [[nodiscard]] char next() const {
        char character = 0;
        return read(ends_[0], &character, 1) == 1 ? character : '\0';
    }

  private:
    std::array<int, 2> ends_{};
};

void kill_and_wait(pid_t pid) {
    ::kill(pid, SIGKILL);
    ENSURE(::waitpid(pid, nullptr, 0) == pid);
}

/// Another process: makes something and keeps it until it is killed.
class Other {
  public:
    /// `make` throws a UserError if it cannot.
    template <class Make>
    explicit Other(const Make& make)
        : pid_{fork_and_ask(pipe_.to(), [&make] {
              try {
                  // Never given up: the process ends by being killed.
                  static_cast<void>(new auto(make()));
                  return 'y';
              } catch (const UserError&) {
                  return 'n';
              }
          })} {
        pipe_.close_end(1);
        answer_ = pipe_.next();
    }
    ~Other() { kill(); }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;

    void kill() {
        if (pid_ != 0) kill_and_wait(pid_);
        pid_ = 0;
    }
    [[nodiscard]] char answer() const { return answer_; }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    Pipe pipe_;
    pid_t pid_;
    char answer_ = 0;
};

/// Of a child whose `body` says whether all was well; it ends with it.
char answer_of(const std::function<char()>& body) {
    Pipe pipe;
    const pid_t pid = fork_and_ask(pipe.to(), body);
    pipe.close_end(1);
    const char answer = pipe.next();
    kill_and_wait(pid);
    return answer;
}

class RunLockTest : public RunFolderTest {
  protected:
    [[nodiscard]] RunLock lock() const {
        RunLock made;
        ENSURE(!made.open(place("lock")));
        return made;
    }
    /// Held by another process.
    [[nodiscard]] std::unique_ptr<Other> held(Kind kind) const {
        auto other = std::make_unique<Other>([this, kind] {
            RunLock made = lock();
            if (made.hold(kind)) throw ConfigError{""};
            return made;
        });
        EXPECT_EQ(other->answer(), 'y');
        return other;
    }
};

TEST_F(RunLockTest, IsSharedByManyAndThenExclusiveForNobody) {
    RunLock mine = lock();
    const auto first = held(Kind::shared);
    const auto second = held(Kind::shared);
    EXPECT_FALSE(mine.hold(Kind::shared));
    EXPECT_TRUE(is_taken(mine.hold(Kind::exclusive)));
    first->kill();
    EXPECT_TRUE(is_taken(mine.hold(Kind::exclusive)));
    second->kill();
    EXPECT_FALSE(mine.hold(Kind::exclusive));
}

TEST_F(RunLockTest, IsExclusiveForOneUntilItDies) {
    const auto first = held(Kind::exclusive);
    RunLock mine = lock();
    EXPECT_TRUE(is_taken(mine.hold(Kind::shared)));
    EXPECT_TRUE(is_taken(mine.hold(Kind::exclusive)));
    first->kill();
    EXPECT_FALSE(mine.hold(Kind::exclusive));
}

TEST_F(RunLockTest, HoldsNothingAfterItCouldNotBecomeExclusive) {
    RunLock mine = lock();
    EXPECT_FALSE(mine.hold(Kind::shared));
    const auto other = held(Kind::shared);
    EXPECT_TRUE(is_taken(mine.hold(Kind::exclusive)));
    other->kill();
    const auto next = held(Kind::exclusive);
}

TEST_F(RunLockTest, LetsGoAtItsEndAndGoesWhereItIsMoved) {
    RunLock taker;
    {
        RunLock mine = lock();
        EXPECT_FALSE(mine.hold(Kind::exclusive));
        taker = std::move(mine);
    }
    RunLock other = lock();
    EXPECT_TRUE(is_taken(other.hold(Kind::shared)));
    taker = RunLock{};
    EXPECT_FALSE(other.hold(Kind::shared));
}

TEST_F(RunLockTest, IsNotPassedOnToProgramsThatAreStarted) {
    RunLock mine = lock();
    ASSERT_FALSE(mine.hold(Kind::exclusive));
    std::array<int, 2> started{};  // closed by exec
    ASSERT_EQ(pipe2(started.data(), O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("sleep", "sleep", "1000", nullptr);
        _exit(1);
    }
    ::close(started[1]);
    char nothing = 0;
    ASSERT_EQ(::read(started[0], &nothing, 1), 0);
    mine = RunLock{};
    RunLock other = lock();
    EXPECT_FALSE(other.hold(Kind::exclusive));
    EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0);  // it lives
    kill_and_wait(pid);
    ::close(started[0]);
}

TEST_F(RunLockTest, NamesTheRun) {
    RunLock mine = lock();
    EXPECT_EQ(mine.name(), "");
    ASSERT_FALSE(mine.set_name("a longer name"));
    ASSERT_FALSE(mine.set_name("name"));
    EXPECT_EQ(lock().name(), "name");
    for (const std::string text : {"", "run name", "name\n", "walk name\n"}) {
        write("lock", text);
        EXPECT_EQ(mine.name(), "") << text;
    }
}

class OneOwnerTest : public RunFolderTest {
  protected:
    [[nodiscard]] std::function<RunFolder()> start() const {
        return [this] {
            RunFolder folder = RunFolder::make(place("run"));
            ENSURE(!folder.record_process("launcher", getpid()));
            return folder;
        };
    }
    [[nodiscard]] std::string refusal() const { return message_of(start()); }
};

TEST_F(OneOwnerTest, RefusesASecondRunAndNamesTheFirst) {
    const Other first{start()};
    ASSERT_EQ(first.answer(), 'y');
    EXPECT_EQ(refusal(), "run folder " + place("run") + " (a run is going on in it: launcher pid " +
                             std::to_string(first.pid()) + " on host " + host_name() +
                             "), wait for its end, stop it with `rhizome stop " + place("run") +
                             "`, or name another folder");
    EXPECT_EQ(RunFolder::open(place("run")).recorded().size(), 1U);
}

TEST_F(OneOwnerTest, RefusesASecondRunWhileOneRankOfTheFirstLives) {
    Other launcher{start()};
    const std::string run = [this] {
        RunLock lock;
        ENSURE(!lock.open(place("run/lock")));
        return lock.name();
    }();
    Other rank{[&] {
        RunFolder folder = RunFolder::join(place("run"), run);
        ENSURE(!folder.record_process("rank.0", getpid()));
        return folder;
    }};
    ASSERT_EQ(rank.answer(), 'y');
    launcher.kill();
    EXPECT_THAT(refusal(), HasSubstr("(a run is going on in it: rank.0 pid " +
                                     std::to_string(rank.pid()) + " on host "));
    rank.kill();
    EXPECT_EQ(refusal(), "");
}

TEST_F(OneOwnerTest, NamesARunOfAnotherHost) {
    const RunFolder folder = RunFolder::make(place("run"));
    write("run/processes/launcher", "host node7\npid 12\nstarted 1\n");
    EXPECT_THAT(refusal(), HasSubstr("(a run is going on in it: launcher pid 12 on host node7)"));
}

TEST_F(OneOwnerTest, TakesADeadRunOverAndKeepsWhatItMade) {
    Other first{start()};
    const RunFolder seen = RunFolder::open(place("run"));
    fs::create_directories(place("run/states/step-00000007"));
    write("run/metrics.jsonl", "{}\n");
    write("run/.rank.3.host.17", "half");
    ASSERT_FALSE(seen.ask_to_stop());
    ASSERT_FALSE(seen.ask_to_save());
    ASSERT_TRUE(seen.finish(ExitCode::stopped, "stopped after 7 steps").mine);
    first.kill();

    const RunFolder next = RunFolder::make(place("run"));
    EXPECT_TRUE(next.taken_over());
    EXPECT_FALSE(next.stop_asked());
    EXPECT_FALSE(next.save_asked());
    EXPECT_EQ(next.finished(), std::nullopt);
    EXPECT_TRUE(next.recorded().empty());
    EXPECT_THAT(names_in("run"),
                ElementsAre("former", "lock", "metrics.jsonl", "processes", "states"));
    EXPECT_THAT(names_in("run/states"), ElementsAre("step-00000007"));
    const std::string former = "run/former/" + names_in("run/former").at(0);
    EXPECT_THAT(former, ::testing::EndsWith("-1"));
    EXPECT_EQ(read(former + "/finished"), "code 6\nreason stopped after 7 steps\n");
}

TEST_F(OneOwnerTest, KeepsTheLastWordsOfAllRunsThatWereThere) {
    for (int run = 0; run < 5; ++run) {
        const RunFolder folder = RunFolder::make(place("run"));
        EXPECT_EQ(folder.taken_over(), run > 0);
        ASSERT_TRUE(folder.finish(ExitCode::done, std::to_string(run)).mine);
    }
    static_cast<void>(RunFolder::make(place("run")));
    static_cast<void>(RunFolder::make(place("run")));  // after one that left no word
    std::vector<std::string> texts;
    for (const std::string& name : names_in("run/former")) {
        texts.push_back(read("run/former/" + name + "/finished"));
    }
    std::sort(texts.begin(), texts.end());
    ASSERT_EQ(texts.size(), 5U);
    for (std::size_t run = 0; run < texts.size(); ++run) {
        EXPECT_EQ(texts[run], "code 0\nreason " + std::to_string(run) + "\n");
    }
}

TEST_F(OneOwnerTest, TakesOverWhatATakeOverLeftThatBrokeOff) {
    static_cast<void>(RunFolder::make(place("run")));
    fs::create_directories(place("run/states/step-00000007"));
    fs::remove(place("run/processes"));
    const RunFolder folder = RunFolder::make(place("run"));
    EXPECT_TRUE(folder.taken_over());
    EXPECT_THAT(names_in("run"), ElementsAre("lock", "processes", "states"));
}

TEST_F(OneOwnerTest, LetsNobodyJoinAnotherRunThanItsOwn) {
    const std::string first = RunFolder::make(place("run")).run();
    const RunFolder next = RunFolder::make(place("run"));
    EXPECT_NE(next.run(), first);
    EXPECT_EQ(RunFolder::join(place("run"), next.run()).run(), next.run());
    for (const std::string& run : {first, std::string{}}) {
        EXPECT_THAT(message_of([&] { return RunFolder::join(place("run"), run); }),
                    HasSubstr("(another run has it by now), start this one again"));
    }
}

TEST_F(OneOwnerTest, LetsNobodyJoinWhileTheNextBegins) {
    const std::string first = RunFolder::make(place("run")).run();
    RunLock next;
    ASSERT_FALSE(next.open(place("run/lock")));
    ASSERT_FALSE(next.hold(Kind::exclusive));
    EXPECT_THAT(message_of([&] { return RunFolder::join(place("run"), first); }),
                HasSubstr("(another run has it by now)"));
}

/// Answers of processes that begin a run in the same folder at the same moment.
std::string answers_of_a_race(int starters, const std::function<RunFolder()>& start) {
    Pipe begin;
    Pipe answers;
    std::vector<pid_t> children;
    for (int i = 0; i < starters; ++i) {
        children.push_back(fork_and_ask(answers.to(), [&] {
            begin.close_end(1);
            static_cast<void>(begin.next());  // comes when nobody has the other end any more
            try {
                static_cast<void>(new RunFolder{start()});
                return 'y';
            } catch (const ConfigError& error) {
                return std::string{error.what()}.find("(a run is going on in it") !=
                               std::string::npos
                           ? 'n'
                           : '!';
            }
        }));
    }
    answers.close_end(1);
    begin.close_end(1);
    std::string all;
    for (int i = 0; i < starters; ++i) all += answers.next();
    for (const pid_t child : children) kill_and_wait(child);
    std::sort(all.begin(), all.end());
    return all;
}

constexpr int rounds = 100;

TEST_F(OneOwnerTest, HasOneOfManyThatTakeADeadRunOverAtOnce) {
    static_cast<void>(RunFolder::make(place("run")));
    fs::create_directories(place("run/states/step-00000007"));
    for (int round = 0; round < rounds; ++round) {
        ASSERT_EQ(answers_of_a_race(4, start()), "nnny") << round;
        ASSERT_EQ(names_in("run/processes").size(), 1U);
        ASSERT_EQ(names_in("run/states").size(), 1U);
    }
}

TEST_F(OneOwnerTest, HasOneOfManyThatBeginInANewFolderAtOnce) {
    for (int round = 0; round < rounds; ++round) {
        ASSERT_EQ(answers_of_a_race(4, start()), "nnny") << round;
        fs::remove_all(place("run"));
    }
}

/// From now on flock fails like that, in this process. Whether the kernel does us the favour.
bool make_flock_fail(unsigned error) {
    std::array<sock_filter, 4> code{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{code.size(), code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(OneOwnerTest, GoesOnWhereThereAreNoLocksAndSaysSo) {
    for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
        const char answer = answer_of([&] {
            if (!make_flock_fail(static_cast<unsigned>(error))) return 's';
            const RunFolder first = RunFolder::make(place("run"));
            if (first.lock_problem().value() != error) return '1';
            const RunFolder rank = RunFolder::join(place("run"), first.run());
            if (rank.lock_problem().value() != error) return '2';
            // Nobody is known to live.
            const RunFolder second = RunFolder::make(place("run"));
            if (!second.taken_over()) return '3';
            if (!message_of([&] {
                     return RunFolder::join(place("run"), first.run());
                 }).ends_with("start this one again elsewhere")) {
                return '4';
            }
            if (second.record_process("rank.0", getpid())) return '5';
            return message_of([&] {
                       return RunFolder::make(place("run"));
                   }).find("a run is going on in it: rank.0 pid") != std::string::npos
                       ? 'y'
                       : '6';
        });
        if (answer == 's') GTEST_SKIP() << "this kernel filters no system calls";
        EXPECT_EQ(answer, 'y') << error;
        fs::remove_all(place("run"));
    }
}

TEST_F(OneOwnerTest, IsRefusedWhereLocksAreBroken) {
    const char answer = answer_of([&] {
        if (!make_flock_fail(EIO)) return 's';
        const std::string message = message_of([&] { return RunFolder::make(place("run")); });
        return message.find("Input/output error") != std::string::npos ? 'y' : 'n';
    });
    if (answer == 's') GTEST_SKIP() << "this kernel filters no system calls";
    EXPECT_EQ(answer, 'y');
}

TEST_F(OneOwnerTest, HasALockThatIsGoodWhereThereAreLocks) {
    EXPECT_FALSE(RunFolder::make(place("run")).lock_problem());
}

}  // namespace
}  // namespace rhizome::world
