// States and files that are made of states: all of it, or nothing.
#include "cli/state_write.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/state_diff.hpp"
#include "cli/state_exchange.hpp"
#include "core/error.hpp"
#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::cli {
namespace {

using ::testing::HasSubstr;

class StateWrite : public ::testing::Test {
  protected:
    std::shared_ptr<state::FakeDisk> disk = std::make_shared<state::FakeDisk>();
    std::string source = state::write_sample_state(*disk, "/run/states", 5, 3);

    std::string weights_of(const std::string& path) {
        const state::Verified verified = state::verify_state(disk, path);
        EXPECT_TRUE(verified.faults.empty());
        return verified.weights;
    }
    template <class Act>
    std::string refusal(Act act) {
        const auto before = disk->files();
        try {
            act();
        } catch (const UserError& error) {
            EXPECT_EQ(disk->files(), before);
            return error.what();
        }
        ADD_FAILURE() << "not refused";
        return {};
    }
    /// Fails each operation in turn, until one run has met none that fails.
    template <class Act>
    void fails_cleanly(Act act) {
        for (std::int64_t n = 0;; ++n) {
            ASSERT_LT(n, 1000);
            const auto copy = disk->after_kill();
            const auto before = copy->files();
            copy->fail_operation(copy->operations() + n, std::errc::io_error);
            bool refused = false;
            try {
                act(copy);
            } catch (const UserError&) {
                refused = true;
            } catch (const state::FileError&) {
                refused = true;
            }
            if (refused) {
                EXPECT_EQ(copy->files(), before) << "operation " << n;
            }
            if (!copy->fired()) {
                EXPECT_FALSE(refused);
                return;
            }
        }
    }
};

TEST_F(StateWrite, AMergedStateHasOneShareAndTheSameContent) {
    const WrittenReport report = merge_state(disk, source, "/merged");
    EXPECT_EQ(report.steps, 5);
    EXPECT_EQ(weights_of("/merged"), weights_of(source));
    const state::StateReader merged{disk, "/merged"};
    EXPECT_EQ(merged.index().shares.size(), 1U);
    EXPECT_EQ(merged.index().facts, state::sample_facts(5));
    EXPECT_EQ(merged.index().table, state::sample_table());
}

TEST_F(StateWrite, MergingFailsCleanlyAtEveryOperation) {
    fails_cleanly([&](const auto& files) { (void)merge_state(files, source, "/merged"); });
}

TEST_F(StateWrite, ExportingFailsCleanlyAtEveryOperation) {
    fails_cleanly([&](const auto& files) {
        (void)export_state(files, source, "/raw.safetensors", ExportForm::raw);
    });
}

TEST_F(StateWrite, AFullDiskIsSaid) {
    disk->set_capacity(disk->bytes_used() + 100);
    EXPECT_THAT(refusal([&] { (void)merge_state(disk, source, "/merged"); }),
                HasSubstr("/merged (cannot be written: "));
}

TEST_F(StateWrite, MomentsThatAreNotGivenAreZero) {
    const state::StoredTable table = state::sample_table();
    std::vector<TensorValues> values(table.tensors.size());
    write_state(*disk, "/zero", state::sample_facts(0), table, values);
    state::StateReader reader{disk, "/zero"};
    std::vector<std::byte> bytes(55 * sizeof(float), std::byte{1});
    reader.read_tensor(0, state::Value::second_moment, bytes);
    EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size()));
}

TEST_F(StateWrite, NamesThatAreTakenOrWouldDoHarmAreRefused) {
    const auto merge_to = [&](const std::string& to) {
        return refusal([&] { (void)merge_state(disk, source, to); });
    };
    EXPECT_THAT(merge_to("/run"), HasSubstr("is there already"));
    EXPECT_THAT(merge_to(source), HasSubstr("is there already"));
    EXPECT_THAT(merge_to(source + "/inside"), HasSubstr("lies within a state"));
    EXPECT_THAT(merge_to("/step-00000006"), HasSubstr("is a name for 6 steps"));
    EXPECT_THAT(merge_to("/other/step-00000005"), HasSubstr("there is no folder /other"));
    disk->make_folder("/other");
    (void)merge_state(disk, source, "/other/step-00000005");
    EXPECT_EQ(weights_of("/other/step-00000005"), weights_of(source));
}

TEST_F(StateWrite, ARawFileGivesTheWholeStateBack) {
    (void)export_state(disk, source, "/raw.safetensors", ExportForm::raw);
    (void)import_state(disk, "/raw.safetensors", "/back", {});
    EXPECT_EQ(weights_of("/back"), weights_of(source));
    const state::StateReader back{disk, "/back"};
    EXPECT_EQ(back.index().facts, state::sample_facts(5));
    EXPECT_EQ(back.index().table, state::sample_table());
    EXPECT_THAT(refusal([&] {
                    (void)import_state(disk, "/raw.safetensors", "/again",
                                       {.flags = {"--seed=3"}, .environment = {}, .read_file = {}});
                }),
                HasSubstr("--seed=3 (/raw.safetensors holds a whole state"));
}

TEST_F(StateWrite, OnlyAGptHasNamesAtHuggingFace) {
    EXPECT_THAT(
        refusal([&] { (void)export_state(disk, source, "/m.safetensors", ExportForm::gpt2); }),
        HasSubstr("--raw"));
}

}  // namespace
}  // namespace rhizome::cli
