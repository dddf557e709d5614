#include "cli/stored_gpt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/run_config.hpp"
#include "core/error.hpp"
#include "model/gpt.hpp"
#include "state/share_file.hpp"
#include "state/state_folder.hpp"
#include "support/memory_files.hpp"

namespace rhizome::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::MemoryFiles;

RunConfig tiny() {
    RunConfig config;
    config.model = {.blocks = 1, .channels = 4, .heads = 2, .context = 3, .vocabulary = 256};
    config.chunk_elements = 100;
    return config;
}

state::StoredTable table_of(const RunConfig& config) {
    return state::stored_table_of(
        model::make_gpt(config.model, 1, device::dtype_of(config.precision), config.chunk_elements)
            .table());
}

/// What element `i` of a tensor is in the states here.
float number(std::int32_t tensor, std::int64_t i) {
    return static_cast<float>(tensor) * 10000.0F + static_cast<float>(i);
}

/// A state that says these keys of itself; its parameters are as above, its moments are zero.
std::string put_state(MemoryFiles& files, std::int32_t steps, const state::StoredTable& table,
                      const std::string& keys) {
    const std::string folder = "run/states";
    std::vector<state::StoredChunk> all = table.all_chunks();
    std::vector<std::vector<float>> values;
    std::vector<state::ChunkValues> chunks;
    values.reserve(2 * all.size());  // spans look into it
    for (const state::StoredChunk chunk : all) {
        std::vector<float> parameter;
        for (std::int64_t i = 0; i < table.elements_of(chunk); ++i) {
            parameter.push_back(number(chunk.tensor, table.first_element_of(chunk) + i));
        }
        const auto& p = values.emplace_back(std::move(parameter));
        const auto& zeros = values.emplace_back(p.size());
        chunks.push_back({chunk,
                          {std::as_bytes(std::span{p}), std::as_bytes(std::span{zeros}),
                           std::as_bytes(std::span{zeros})}});
    }
    state::StateFacts facts;
    facts.steps = steps;
    facts.saved_at = "2026-11-30T05:48:35Z";
    facts.program = "rhizome 0.1.0";
    facts.mathematics = keys;
    state::begin_state(files, folder, steps);
    static_cast<void>(
        state::write_share(files, state::part_folder(folder, steps) + "/" + state::share_name(0),
                           table, steps, 0, chunks));
    return state::commit_state(files, folder, facts, table, 1).path;
}

std::string put_state(MemoryFiles& files, std::int32_t steps, const RunConfig& config = tiny()) {
    return put_state(files, steps, table_of(config), mathematics_keys(config));
}

template <class Error>
std::string message_of(const std::shared_ptr<MemoryFiles>& files, const std::string& path,
                       std::optional<std::int32_t> heads = std::nullopt) {
    try {
        (void)open_stored_gpt(files, path, heads);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(FindStoredGpts, TakesAStateAsItIs) {
    MemoryFiles files;
    const std::string path = put_state(files, 5);
    EXPECT_EQ(path, "run/states/step-00000005");
    EXPECT_THAT(find_stored_gpts(files, path), ElementsAre(path));
}

TEST(FindStoredGpts, TakesTheStatesOfARunFromTheNewestOn) {
    MemoryFiles files;
    for (const std::int32_t steps : {5, 100, 20}) (void)put_state(files, steps);
    const auto newest_first = ElementsAre("run/states/step-00000100", "run/states/step-00000020",
                                          "run/states/step-00000005");
    EXPECT_THAT(find_stored_gpts(files, "run"), newest_first);
    EXPECT_THAT(find_stored_gpts(files, "run/states"), newest_first);
}

TEST(FindStoredGpts, RefusesAllElse) {
    MemoryFiles files;
    files.put("text.txt", "text");
    files.put("model.safetensors", "");
    files.put("run/finished", "0 done");
    const auto problem = [&](const std::string& from) -> std::string {
        try {
            (void)find_stored_gpts(files, from);
        } catch (const DataError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(problem("nothing"), HasSubstr("nothing (there is nothing of that name)"));
    EXPECT_THAT(problem("text.txt"), HasSubstr("(is no folder and no *.safetensors file)"));
    EXPECT_THAT(problem("run"), HasSubstr("(is neither a state nor a folder that has some)"));
    EXPECT_EQ(problem("model.safetensors"), "");
}

TEST(StoredGpt, IsWhatTheKeysOfItsStateSay) {
    const auto files = std::make_shared<MemoryFiles>();
    RunConfig config = tiny();
    config.model.dropout = 0.25;
    config.model.tying = model::Tying::untied;
    config.model.vocabulary = 300;
    config.data.format = data::Format::tokens;
    const StoredGpt stored = open_stored_gpt(files, put_state(*files, 5, config), std::nullopt);
    EXPECT_EQ(stored.model, config.model);
    EXPECT_EQ(stored.precision, DType::f32);
    EXPECT_EQ(stored.tokens, TokenKind::numbers);
    EXPECT_EQ(open_stored_gpt(files, put_state(*files, 6), std::nullopt).tokens, TokenKind::bytes);
}

TEST(StoredGpt, HasTheParametersOfEachTensorByItsPlace) {
    const auto files = std::make_shared<MemoryFiles>();
    const StoredGpt stored = open_stored_gpt(files, put_state(*files, 5), std::nullopt);
    const state::StoredTable table = table_of(tiny());
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(table.tensors.size()); ++place) {
        std::vector<float> read(static_cast<std::size_t>(
            table.tensors[static_cast<std::size_t>(place)].shape.elements()));
        stored.weights->read(place, std::as_writable_bytes(std::span{read}));
        for (std::size_t i = 0; i < read.size(); ++i) {
            ASSERT_EQ(read[i], number(place, static_cast<std::int64_t>(i))) << place;
        }
    }
}

TEST(StoredGpt, IsRefusedWhereItsKeysAreNotThoseOfANetworkHere) {
    const auto files = std::make_shared<MemoryFiles>();
    const std::string keys = mathematics_keys(tiny());
    const std::string newer = put_state(*files, 5, table_of(tiny()), keys + "model.experts = 8\n");
    EXPECT_THAT(message_of<DataError>(files, newer),
                AllOf(HasSubstr(newer), HasSubstr("is of no network that this program knows"),
                      HasSubstr("model.experts"), HasSubstr("rhizome 0.1.0")));
    const std::string silent = put_state(*files, 6, table_of(tiny()), "");
    EXPECT_THAT(message_of<DataError>(files, silent), HasSubstr("is missing"));
}

TEST(StoredGpt, IsRefusedWhereItsTensorsAreNotThoseOfItsKeys) {
    const auto files = std::make_shared<MemoryFiles>();
    RunConfig other = tiny();
    other.model.blocks = 2;
    const std::string path = put_state(*files, 5, table_of(other), mathematics_keys(tiny()));
    EXPECT_THAT(message_of<DataError>(files, path),
                HasSubstr("its tensors are not those of the GPT that its keys describe"));
}

TEST(StoredGpt, OfADamagedStateIsAStateError) {
    const auto files = std::make_shared<MemoryFiles>();
    const std::string path = put_state(*files, 5);
    files->put(path + "/index.h5", "no index");
    EXPECT_NE(message_of<state::StateError>(files, path), "");
}

TEST(StoredGpt, OfAStateNeedsNoWordAboutHeads) {
    const auto files = std::make_shared<MemoryFiles>();
    EXPECT_THAT(message_of<ConfigError>(files, put_state(*files, 5), 2),
                AllOf(HasSubstr("--heads=2"), HasSubstr("leave it out")));
}

}  // namespace
}  // namespace rhizome::cli
