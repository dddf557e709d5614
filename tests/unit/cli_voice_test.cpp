// One voice for the run, whoever speaks: what the first member has said the next one does not say
// again, and nothing is left out between them.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/voice.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class VoiceTest : public testing::Test {
  protected:
    VoiceTest() : output_{::open(path("output").c_str(), O_RDWR | O_CREAT | O_APPEND, 0666)} {}
    ~VoiceTest() override { ::close(output_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
    Voice make(Speaks speaks) {
        return Voice{{.progress = {.steps = 10,
                                   .tokens_per_step = 8,
                                   .samples_per_step = 2,
                                   .samples_per_pass = 20,
                                   .log_interval = 1},
                      .screen = {},
                      .output = output_,
                      .folder = folder_.path(""),
                      .tokens_per_step = 8},
                     clock_,
                     log_,
                     speaks};
    }
    static engine::StepResult step(std::int32_t number) {
        return {Step{number}, 5.0 - number, 1.0, 0.1};
    }
    [[nodiscard]] std::string said() const {
        std::ifstream file{path("output")};
        return {std::istreambuf_iterator<char>{file}, {}};
    }
    [[nodiscard]] std::vector<std::string> events() const {
        std::vector<std::string> events;
        std::ifstream file{path("metrics.jsonl")};
        for (std::string line; std::getline(file, line);) {
            const auto object = nlohmann::json::parse(line);
            std::string event = object["event"];
            if (event == "step") event += " " + std::to_string(object["step"].get<int>());
            events.push_back(event);
        }
        return events;
    }
    static engine::RepairRecord repair() {
        return {.epoch = Epoch{1},
                .lost = {WorkerId{0}},
                .noticed = CommStatus::peer_lost,
                .reason = "every chunk has an owner left; 1 pipeline of 3 workers",
                .steps = 3,
                .attempts = 1,
                .bytes_moved = 1000};
    }

    data::TempFolder folder_;
    int output_;
    ManualClock clock_;
    Log log_{[](std::string_view) {}};
};

TEST_F(VoiceTest, OnlyTheFirstMemberSpeaks) {
    Voice other = make(Speaks::no);
    other.on_step(step(0));
    other.on_evaluation(1, 3.0);
    other.table({{"weights", "abc"}});
    EXPECT_EQ(said(), "");
    EXPECT_TRUE(events().empty());
    Voice first = make(Speaks::yes);
    first.on_step(step(0));
    EXPECT_THAT(said(), HasSubstr("step  1/10  loss 5.0000"));
    EXPECT_THAT(events(), ElementsAre("step 0"));
}

TEST_F(VoiceTest, TheNextOneSaysWhatTheFirstHadNoTimeFor) {
    Voice first = make(Speaks::yes);
    Voice next = make(Speaks::no);
    for (const std::int32_t number : {0, 1}) {
        first.on_step(step(number));
        next.on_step(step(number));
    }
    next.on_step(step(2));  // committed, and the first member died before it could say so
    next.take_over();
    next.on_repair(repair());
    next.on_step(step(3));
    EXPECT_THAT(events(), ElementsAre("step 0", "step 1", "step 2", "repair", "step 3"));
    EXPECT_THAT(said(),
                HasSubstr("step  3/10  worker 0 was lost, rung 3 re-plan (every chunk has an "
                          "owner left; 1 pipeline of 3 workers): on in "));
    EXPECT_THAT(said(), HasSubstr("step  4/10  loss 2.0000"));
    EXPECT_THAT(said(), Not(HasSubstr("step  3/10  loss")));  // only programs want every step
}

TEST_F(VoiceTest, TheTableHasTheWholeRun) {
    Voice next = make(Speaks::no);
    for (const std::int32_t number : {0, 1, 2}) next.on_step(step(number));
    next.on_evaluation(3, 3.5);
    clock_.advance(std::chrono::seconds{2});
    next.take_over();
    engine::RepairRecord record = repair();
    record.ended = std::chrono::milliseconds{250};
    record.again = std::chrono::milliseconds{250};
    next.on_repair(record);
    next.table({{"weights", "abc"}});
    EXPECT_THAT(said(), HasSubstr("steps              3\n"));
    EXPECT_THAT(said(), HasSubstr("validation loss    3.5000"));
    EXPECT_THAT(said(), HasSubstr("workers lost       1 (1 by rung 3 re-plan)\n"));
    EXPECT_THAT(said(),
                HasSubstr("time lost          0.5 s: repair 0.25 s, work again 0.25 s; 1.0kB"));
    EXPECT_THAT(said(), HasSubstr("goodput            75.0 % of the time"));
    EXPECT_THAT(said(), HasSubstr("weights            abc\n"));
}

TEST_F(VoiceTest, SaysThatFurtherLossesCanCome) {
    Voice first = make(Speaks::yes);
    first.on_step(step(0));
    first.on_renewal(1, {std::chrono::milliseconds{8}, std::chrono::milliseconds{20}});
    EXPECT_THAT(events(), ElementsAre("step 0", "renewal"));
    EXPECT_THAT(said(), HasSubstr("step  1/10  ready for further losses (12 ms)"));
    first.on_renewal(1, {std::chrono::milliseconds{0}, std::chrono::milliseconds{7240}});
    EXPECT_THAT(said(), HasSubstr("ready for further losses (7.24 s)"));
}

TEST_F(VoiceTest, ANewShapeBetweenStepsIsNoLoss) {
    Voice first = make(Speaks::yes);
    for (const std::int32_t number : {0, 1, 2}) first.on_step(step(number));
    engine::RepairRecord record = repair();
    record.lost.clear();
    record.noticed = CommStatus::ok;
    record.reason = "3 pipelines of 2 workers";
    first.on_repair(record);
    EXPECT_EQ(events().back(), "replan");
    EXPECT_THAT(said(),
                HasSubstr("step  3/10  new shape, rung 3 re-plan (3 pipelines of 2 workers): on "));
    clock_.advance(std::chrono::seconds{2});
    first.table({});
    EXPECT_THAT(said(), Not(HasSubstr("workers lost")));
}

TEST_F(VoiceTest, ACalmRunHasNoRowsOfLosses) {
    Voice first = make(Speaks::yes);
    first.on_step(step(0));
    first.table({});
    EXPECT_THAT(said(), Not(HasSubstr("lost")));
    EXPECT_THAT(said(), Not(HasSubstr("goodput")));
}

}  // namespace
}  // namespace rhizome::cli
