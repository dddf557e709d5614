#include "cli/run_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "cli/command_line.hpp"
#include "cli/help.hpp"
#include "cli/save_command.hpp"
#include "cli/stop_command.hpp"

namespace rhizome::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Command::Kind;

const BuiltInMpi open_mpi{"/mpi/mpirun", "--with-ft ulfm --mca btl ^sm"};

RunOptions parse_run(const Arguments& arguments, const Environment& environment = {}) {
    return parse_run_options(arguments, environment,
                             [](const std::string&) { return "data.train = book.txt\n"; });
}

template <class Call>
std::string message_of(const Call& call) {
    try {
        static_cast<void>(call());
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

std::string run_message_of(Arguments arguments) {
    arguments.insert(arguments.end(), {"--data.train", "book.txt"});
    return message_of([&] { return parse_run(arguments); });
}

TEST(RunOptions, TakeOutTheirOwnFlagsAndLeaveTheRestToTrain) {
    const RunOptions options =
        parse_run({"--seed", "3", "-n", "6", "--folder", "runs/x", "--mpirun=/opt/mpirun",
                   "--data.train=book.txt", "--optimizer.learning_rate", "3e-4"});
    EXPECT_EQ(options.ranks, 6);
    EXPECT_EQ(options.folder, "runs/x");
    EXPECT_EQ(options.mpirun, "/opt/mpirun");
    EXPECT_THAT(options.train,
                ElementsAre("--seed=3", "--data.train=book.txt", "--optimizer.learning_rate=3e-4"));
}

TEST(RunOptions, CanBeGivenInEveryForm) {
    for (const Arguments& ranks :
         std::vector<Arguments>{{"-n", "4"}, {"--ranks", "4"}, {"--ranks=4"}}) {
        Arguments arguments{"--config", "run.conf"};
        arguments.insert(arguments.end(), ranks.begin(), ranks.end());
        EXPECT_EQ(parse_run(arguments), (RunOptions{.ranks = 4, .train = {"--config=run.conf"}}));
    }
}

TEST(RunOptions, TakeTheLauncherFromTheEnvironmentUnlessAFlagNamesOne) {
    const Environment environment{{"RHIZOME_MPIRUN", "/env/mpirun"}};
    const Arguments arguments{"-n", "2", "--data.train=x"};
    EXPECT_EQ(parse_run(arguments, environment).mpirun, "/env/mpirun");
    EXPECT_EQ(parse_run({"-n", "2", "--data.train=x", "--mpirun=y"}, environment).mpirun, "y");
    EXPECT_EQ(message_of([&] { return parse_run(arguments, {{"RHIZOME_MPIRUN", ""}}); }),
              "RHIZOME_MPIRUN (has no value), give one or leave the variable out");
}

TEST(RunOptions, NeedANumberOfRanks) {
    EXPECT_EQ(run_message_of({}), "--ranks (how many are to train?), write -n N or --ranks N");
    EXPECT_THAT(run_message_of({"-n", "0"}), HasSubstr("--ranks=0 (outside 1..65536)"));
    EXPECT_THAT(run_message_of({"-n", "two"}), HasSubstr("--ranks=two ("));
    EXPECT_THAT(run_message_of({"-n"}), HasSubstr("--ranks (no value"));
    EXPECT_THAT(run_message_of({"-n", "2", "--ranks", "3"}),
                HasSubstr("(given before: --ranks=2)"));
    EXPECT_THAT(run_message_of({"--rank", "2"}), HasSubstr("did you mean --ranks?"));
}

TEST(RunOptions, FindTrainsMistakesBeforeAnythingIsStarted) {
    EXPECT_THAT(run_message_of({"-n", "2", "--lanes", "x"}), HasSubstr("--lanes=x ("));
    EXPECT_THAT(run_message_of({"-n", "2", "--lane", "2"}), HasSubstr("did you mean --lanes?"));
    EXPECT_THAT(message_of([] { return parse_run({"-n", "2"}); }), HasSubstr("data.train (no"));
    const auto in_environment = [] {
        return parse_run({"-n", "2", "--data.train=x"}, {{"RHIZOME_LANES", "x"}});
    };
    EXPECT_THAT(message_of(in_environment), HasSubstr("RHIZOME_LANES=x ("));
}

TEST(MpirunCommand, HasTheOptionsOfEveryLaunchAndThenTheProgram) {
    const RunOptions options{.ranks = 6, .train = {"--seed=3", "--data.train=a b.txt"}};
    EXPECT_THAT(
        mpirun_command(options, open_mpi, {}, "/bin/rhizome", {"/runs/x", "n.1.2"}),
        ElementsAre("/mpi/mpirun", "--with-ft", "ulfm", "--mca", "btl", "^sm", "--bind-to", "none",
                    "--map-by", ":OVERSUBSCRIBE", "-n", "6", "/bin/rhizome", "train",
                    "--folder=/runs/x", "--run=n.1.2", "--seed=3", "--data.train=a b.txt"));
}

TEST(MpirunCommand, TakesOurVariablesToOtherHosts) {
    const Environment environment{
        {"HOME", "/"}, {"RHIZOME_SEED", "1"}, {"RHIZOME_MPIRUN", "/m"}, {"RHIZOME_LANES", "2"}};
    const auto command = mpirun_command({.ranks = 1, .mpirun = "/m"}, {"", "--x"}, environment,
                                        "/rhizome", {"/f", "r"});
    EXPECT_THAT(command, ElementsAre("/m", "--x", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE",
                                     "-x", "RHIZOME_SEED", "-x", "RHIZOME_LANES", "-n", "1",
                                     "/rhizome", "train", "--folder=/f", "--run=r"));
}

TEST(MpirunCommand, NeedsAnMpi) {
    EXPECT_THAT(message_of([] { return mpirun_command({.ranks = 2}, {}, {}, "r", {}); }),
                HasSubstr("rhizome run (this program was built without an Open MPI"));
}

TEST(StopOptions, AreAFolderAndPerhapsATime) {
    EXPECT_EQ(parse_stop_options({"runs/x"}), (StopOptions{"runs/x", 60s}));
    EXPECT_EQ(parse_stop_options({"--within", "1.5", "x"}), (StopOptions{"x", 1500ms}));
    EXPECT_EQ(parse_stop_options({"x", "--within=1e6"}), (StopOptions{"x", 1'000'000s}));
    EXPECT_EQ(parse_stop_options({"x", "--now"}), (StopOptions{"x", 0s}));
}

TEST(StopOptions, AreRefusedWhenTheyMakeNoSense) {
    for (const auto& [arguments, message] : std::vector<std::pair<Arguments, std::string>>{
             {{}, "rhizome stop (which run?), name its folder"},
             {{"--now"}, "rhizome stop (which run?), name its folder"},
             {{""}, "`` (one run's folder is wanted), name just one"},
             {{"x", "y"}, "`y` (one run's folder is wanted), name just one"},
             {{"x", "--soon"}, "`--soon` (no such flag), `rhizome stop --help` lists all"},
             {{"x", "--within"}, "--within (has no value), write --within SECONDS"},
             {{"x", "--within="}, "--within= ("},
             {{"x", "--within", "0"}, "--within=0 (must be in (0, 1e6])"},
             {{"x", "--within", "1e7"}, "--within=1e7 ("},
             {{"x", "--within=nan"}, "--within=nan ("},
             {{"x", "--within=1", "--within=1"}, "--within (given before), keep one"},
             {{"x", "--within=1", "--now"}, "--now (beside --within), keep one"}}) {
        EXPECT_THAT(message_of([&] { return parse_stop_options(arguments); }), HasSubstr(message));
    }
}

TEST(SaveOptions, AreAFolderAndPerhapsATime) {
    EXPECT_EQ(parse_save_options({"runs/x"}), (SaveOptions{"runs/x", 600s}));
    EXPECT_EQ(parse_save_options({"--within=1.5", "x"}), (SaveOptions{"x", 1500ms}));
    for (const auto& [arguments, message] : std::vector<std::pair<Arguments, std::string>>{
             {{}, "rhizome save (which run?), name its folder: rhizome save FOLDER"},
             {{"x", "--now"}, "`--now` (no such flag), `rhizome save --help` lists all"},
             {{"x", "--within=0"}, "--within=0 (must be in (0, 1e6])"}}) {
        EXPECT_THAT(message_of([&] { return parse_save_options(arguments); }), HasSubstr(message));
    }
}

TEST(CommandLine, KnowsRunStopAndSave) {
    const auto parse = [](const Arguments& arguments) {
        return parse_command_line(arguments, {}, [](const std::string&) { return ""; });
    };
    EXPECT_EQ(parse({"run", "-n", "2", "--help"}).kind, Kind::run_help);
    EXPECT_EQ(parse({"stop", "-h"}).kind, Kind::stop_help);
    const Command run = parse({"run", "-n", "2", "--data.train=x"});
    EXPECT_EQ(run.kind, Kind::run);
    EXPECT_EQ(run.run.ranks, 2);
    const Command stop = parse({"stop", "runs/x"});
    EXPECT_EQ(stop.kind, Kind::stop);
    EXPECT_EQ(stop.stop.folder, "runs/x");
    EXPECT_EQ(parse({"save", "-h"}).kind, Kind::save_help);
    const Command save = parse({"save", "runs/x"});
    EXPECT_EQ(save.kind, Kind::save);
    EXPECT_EQ(save.save.folder, "runs/x");
    EXPECT_EQ(message_of([&] { return parse({"rum"}); }),
              "`rum` (no such command), did you mean run?");
}

TEST(CommandLine, GivesTrainItsRunsFolder) {
    const auto parse = [](const Arguments& arguments) {
        return parse_command_line(arguments, {}, [](const std::string&) { return ""; });
    };
    const Command command = parse(
        {"train", "--folder", "runs/x", "--run=n.1", "--start=2", "--data.train", "x", "--seed=3"});
    EXPECT_EQ(command.folder, "runs/x");
    EXPECT_EQ(command.start, 2);
    EXPECT_THAT(
        message_of([&] { return parse({"train", "--data.train", "x", "--columns=10001"}); }),
        HasSubstr("--columns=10001 ("));
    EXPECT_EQ(command.joins, "n.1");
    EXPECT_EQ(command.config.seed, 3U);
    EXPECT_EQ(parse({"train", "--data.train", "x"}).folder, "");
    EXPECT_THAT(message_of([&] { return parse({"train", "--folder", "a", "--folder", "b"}); }),
                HasSubstr("(given before: --folder=a), keep one"));
    EXPECT_THAT(message_of([&] { return parse({"train", "--folder"}); }),
                HasSubstr("--folder (has no value)"));
}

TEST(Help, OfRunStopAndSaveIsWhatTheyTake) {
    for (const std::string part : {"-n N", "--ranks N", "--folder", "--mpirun", "RHIZOME_MPIRUN"}) {
        EXPECT_THAT(run_help_text(), HasSubstr(part));
    }
    for (const std::string part : {"FOLDER", "--within SECONDS", "--now", "\n  7  "}) {
        EXPECT_THAT(stop_help_text(), HasSubstr(part));
    }
    for (const std::string part : {"FOLDER", "--within SECONDS", "default: 600", "\n  7  "}) {
        EXPECT_THAT(save_help_text(), HasSubstr(part));
    }
}

}  // namespace
}  // namespace rhizome::cli
