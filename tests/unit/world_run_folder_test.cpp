#include "world/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "unit/world_run_home.hpp"
#include "world/process_table.hpp"

namespace rhizome::world {
namespace {

using ::testing::HasSubstr;

TEST_F(RunFolderTest, IsMadeWithTheFoldersAboveIt) {
    const RunFolder folder = RunFolder::make(place("a/b/run/"));
    EXPECT_EQ(folder.path(), place("a/b/run"));
    EXPECT_TRUE(fs::is_directory(place("a/b/run/processes")));
    EXPECT_EQ(RunFolder::open(place("a/b/run")).path(), folder.path());
}

TEST_F(RunFolderTest, IsMadeInAnEmptyFolderAndOnlyOnce) {
    fs::create_directory(place("run"));
    const RunFolder folder = RunFolder::make(place("run"));
    EXPECT_FALSE(folder.taken_over());
    EXPECT_EQ(message_of([&] { return RunFolder::make(place("run")); }),
              "run folder " + place("run") +
                  " (a run is going on in it), wait for its end, stop it with `rhizome stop " +
                  place("run") + "`, or name another folder");
}

TEST_F(RunFolderTest, IsRefusedWhereOtherFilesAreAndLeavesThemAlone) {
    fs::create_directory(place("run"));
    write("run/thesis.txt", "text");
    EXPECT_THAT(message_of([&] { return RunFolder::make(place("run")); }),
                HasSubstr("run folder " + place("run") + " (is not empty), name one"));
    EXPECT_EQ(names_in("run"), std::vector<std::string>{"thesis.txt"});
}

TEST_F(RunFolderTest, IsRefusedWhereThereIsSomethingElse) {
    write("file", "");
    EXPECT_THAT(message_of([&] { return RunFolder::make(place("file")); }),
                HasSubstr("(cannot be"));
    EXPECT_THAT(message_of([&] { return RunFolder::make(place("file/run")); }),
                HasSubstr("Not a directory"));
    EXPECT_THAT(message_of([&] { return RunFolder::open(place("file")); }),
                HasSubstr("(is no folder), name"));
    EXPECT_THAT(message_of([&] { return RunFolder::open(home_); }),
                HasSubstr("(there is no run in it), name"));
}

TEST_F(RunFolderTest, GetsTheTimeAsItsNameAndANumberIfThatIsTaken) {
    const std::chrono::system_clock::time_point now{std::chrono::seconds{1'700'000'000}};
    const std::string name = place("runs/2023-11-14_22-13-20");
    EXPECT_EQ(RunFolder::make_below(place("runs"), now).path(), name);
    EXPECT_EQ(RunFolder::make_below(place("runs"), now).path(), name + "_2");
    EXPECT_EQ(RunFolder::make_below(place("runs"), now).path(), name + "_3");
}

TEST_F(RunFolderTest, PassesTheEndWordOnToWhoeverHasItOpen) {
    const RunFolder mine = RunFolder::make(place("run"));
    const RunFolder yours = RunFolder::open(place("run"));
    EXPECT_FALSE(yours.stop_asked());
    EXPECT_FALSE(mine.ask_to_stop());
    EXPECT_TRUE(yours.stop_asked());
    EXPECT_FALSE(yours.ask_to_stop());
}

TEST_F(RunFolderTest, PassesTheSaveWordOnToOneAndOnce) {
    const RunFolder mine = RunFolder::make(place("run"));
    const RunFolder yours = RunFolder::open(place("run"));
    EXPECT_FALSE(mine.save_asked());
    EXPECT_FALSE(mine.take_save_word());
    EXPECT_FALSE(yours.ask_to_save());
    EXPECT_FALSE(yours.ask_to_save());
    EXPECT_TRUE(yours.save_asked());
    EXPECT_TRUE(mine.take_save_word());
    EXPECT_FALSE(yours.save_asked());
    EXPECT_FALSE(mine.take_save_word());
    EXPECT_FALSE(mine.stop_asked());
}

TEST_F(RunFolderTest, KeepsTheFirstEnding) {
    const RunFolder folder = RunFolder::make(place("run"));
    EXPECT_EQ(folder.finished(), std::nullopt);
    EXPECT_TRUE(folder.finish(ExitCode::diverged, "loss is\nnan").mine);
    const Marked second = folder.finish(ExitCode::done, "all is well");
    EXPECT_FALSE(second.mine);
    EXPECT_FALSE(second.problem);
    EXPECT_EQ(folder.finished(), (Ending{ExitCode::diverged, "loss is\\x0anan"}));
    EXPECT_EQ(read("run/finished"), "code 4\nreason loss is\\x0anan\n");
    EXPECT_EQ(names_in("run"), (std::vector<std::string>{"finished", "lock", "processes"}));
}

TEST_F(RunFolderTest, HasOneWinnerHoweverManyTryAtOnce) {
    constexpr int writers = 8;
    for (int round = 0; round < 20; ++round) {
        const RunFolder folder = RunFolder::make(place("run" + std::to_string(round)));
        std::vector<Marked> marks(writers);
        std::vector<std::thread> threads;
        for (int writer = 0; writer < writers; ++writer) {
            threads.emplace_back([&folder, &marks, writer] {
                marks[static_cast<std::size_t>(writer)] =
                    folder.finish(ExitCode::done, std::to_string(writer));
            });
        }
        for (std::thread& thread : threads) thread.join();
        int winners = 0;
        for (int writer = 0; writer < writers; ++writer) {
            const Marked& mark = marks[static_cast<std::size_t>(writer)];
            EXPECT_FALSE(mark.problem) << mark.problem.message();
            if (!mark.mine) continue;
            ++winners;
            EXPECT_EQ(folder.finished(), (Ending{ExitCode::done, std::to_string(writer)}));
        }
        EXPECT_EQ(winners, 1);
    }
}

TEST_F(RunFolderTest, ReadsEveryCodeAndReason) {
    for (int code = 0; code <= static_cast<int>(ExitCode::unfinished); ++code) {
        for (const std::string reason : {"", "x", "code 3", "reason reason "}) {
            const std::string name = "run" + std::to_string(code) + reason;
            const RunFolder folder = RunFolder::make(place(name));
            ASSERT_TRUE(folder.finish(static_cast<ExitCode>(code), reason).mine);
            EXPECT_EQ(folder.finished(), (Ending{static_cast<ExitCode>(code), reason}));
        }
    }
}

TEST_F(RunFolderTest, SaysOfADamagedMarkerThatItIs) {
    const RunFolder folder = RunFolder::make(place("run"));
    for (const std::string content :
         {"", "code 0", "code 0\n", "code 0\nreason done", "code 99\nreason x\n",
          "code -1\nreason x\n", "code 00\nreason x\n", "code  0\nreason x\n", "reason x\ncode 0\n",
          "code 0\nreason x\n\n", "code 0\nreason x\nmore y\n", "code 0\r\nreason x\n",
          "code 4294967296\nreason x\n"}) {
        write("run/finished", content);
        const auto ending = folder.finished();
        ASSERT_TRUE(ending) << content;
        EXPECT_EQ(ending->code, ExitCode::unfinished) << content;
        EXPECT_THAT(ending->reason, HasSubstr("finished is damaged"));
    }
}

TEST_F(RunFolderTest, KnowsItsProcessesAndWhoLives) {
    const RunFolder folder = RunFolder::make(place("run"));
    Sleeper sleeper;
    EXPECT_FALSE(folder.record_process("rank.1", sleeper.pid()));
    EXPECT_FALSE(folder.record_process("rank.0", getpid()));
    ASSERT_EQ(folder.recorded().size(), 2U);
    EXPECT_EQ(folder.recorded()[0].name, "rank.0");
    EXPECT_EQ(folder.recorded()[0].host, host_name());
    EXPECT_EQ(folder.recorded()[1].pid, sleeper.pid());
    EXPECT_EQ(folder.living().size(), 2U);
    sleeper.end();
    EXPECT_EQ(folder.recorded().size(), 2U);
    ASSERT_EQ(folder.living().size(), 1U);
    EXPECT_EQ(folder.living()[0].pid, getpid());
}

TEST_F(RunFolderTest, TakesNobodyForAnotherOfTheSameNumber) {
    const RunFolder folder = RunFolder::make(place("run"));
    const std::string pid = std::to_string(getpid());
    const std::string started = std::to_string(find_process(getpid())->started);
    write("run/processes/later", "host " + host_name() + "\npid " + pid + "\nstarted 1\n");
    write("run/processes/elsewhere", "host not-here\npid " + pid + "\nstarted " + started + "\n");
    EXPECT_EQ(folder.recorded().size(), 2U);
    EXPECT_TRUE(folder.living().empty());
    EXPECT_EQ(folder.other_hosts(), "not-here");
}

TEST_F(RunFolderTest, LeavesOutWhatIsNoRecord) {
    const RunFolder folder = RunFolder::make(place("run"));
    for (const std::string content : {"", "host h\n", "host h\npid 1\n",
                                      "host h\npid 0\nstarted 1\n", "host h\npid -1\nstarted 1\n",
                                      "host h\npid 1\nstarted x\n", "pid 1\nhost h\nstarted 1\n"}) {
        write("run/processes/rank.0", content);
        EXPECT_TRUE(folder.recorded().empty()) << content;
    }
    fs::remove(place("run/processes/rank.0"));
    fs::create_directory(place("run/processes/rank.0"));
    EXPECT_TRUE(folder.recorded().empty());
}

TEST_F(RunFolderTest, RecordsNoProcessThatIsGone) {
    const RunFolder folder = RunFolder::make(place("run"));
    Sleeper sleeper;
    const pid_t pid = sleeper.pid();
    sleeper.end();
    EXPECT_EQ(folder.record_process("rank.0", pid), std::errc::no_such_process);
}

TEST_F(RunFolderTest, ReportsThatItHasVanished) {
    const RunFolder folder = RunFolder::make(place("run"));
    fs::remove_all(place("run"));
    EXPECT_FALSE(folder.stop_asked());
    EXPECT_FALSE(folder.save_asked());
    EXPECT_FALSE(folder.take_save_word());
    EXPECT_EQ(folder.ask_to_stop(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(folder.ask_to_save(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(folder.record_process("rank.0", getpid()), std::errc::no_such_file_or_directory);
    const Marked mark = folder.finish(ExitCode::done, "done");
    EXPECT_FALSE(mark.mine);
    EXPECT_EQ(mark.problem, std::errc::no_such_file_or_directory);
    EXPECT_EQ(folder.finished(), std::nullopt);
    EXPECT_TRUE(folder.recorded().empty());
}

TEST_F(RunFolderTest, ReportsThatItMayNotBeWritten) {
    if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    const RunFolder folder = RunFolder::make(place("run"));
    fs::permissions(place("run"), fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_EQ(folder.ask_to_stop(), std::errc::permission_denied);
    EXPECT_EQ(folder.finish(ExitCode::done, "done").problem, std::errc::permission_denied);
    EXPECT_THAT(message_of([&] { return RunFolder::open(place("run")); }),
                HasSubstr("(cannot be written: Permission denied), name"));
    fs::permissions(place("run"), fs::perms::owner_all);
}

TEST_F(RunFolderTest, FollowsTheUmask) {
    const mode_t before = ::umask(027);
    const RunFolder folder = RunFolder::make(place("run"));
    static_cast<void>(folder.ask_to_stop());
    static_cast<void>(folder.ask_to_save());
    static_cast<void>(folder.finish(ExitCode::done, "done"));
    static_cast<void>(folder.record_process("rank.0", getpid()));
    ::umask(before);
    const auto mode = [this](const std::string& name) {
        return static_cast<int>(fs::status(place(name)).permissions());
    };
    EXPECT_EQ(mode("run"), 0750);
    EXPECT_EQ(mode("run/processes"), 0750);
    for (const std::string name :
         {"run/lock", "run/stop", "run/save", "run/finished", "run/processes/rank.0"}) {
        EXPECT_EQ(mode(name), 0640) << name;
    }
}

TEST(ProcessTable, FindsThisProcessItsParentAndItsChildren) {
    Sleeper sleeper;
    const auto self = find_process(getpid());
    ASSERT_TRUE(self);
    EXPECT_EQ(self->parent, getppid());
    const auto child = find_process(sleeper.pid());
    ASSERT_TRUE(child);
    EXPECT_EQ(child->parent, getpid());
    EXPECT_GE(child->started, self->started);
    EXPECT_EQ(find_descendants(), std::vector<Process>{*child});
}

TEST(ProcessTable, CountsTheDeadAsGone) {
    Sleeper sleeper;
    ::kill(sleeper.pid(), SIGKILL);
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(sleeper.pid()), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(find_process(sleeper.pid()), std::nullopt);  // though its number is still taken
    EXPECT_TRUE(find_descendants().empty());
}

TEST(ProcessTable, KillsOnlyWhoeverStartedThen) {
    Sleeper sleeper;
    const Process process = *find_process(sleeper.pid());
    kill_process(process.pid, process.started + 1);
    EXPECT_TRUE(find_process(process.pid));
    kill_process(process.pid, process.started);
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(process.pid), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(ended.si_status, SIGKILL);
}

}  // namespace
}  // namespace rhizome::world
