// Raw files that are not what they should be.
#include "state/raw_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::state {
namespace {

using ::testing::HasSubstr;

class RawFileTest : public ::testing::Test {
  protected:
    std::shared_ptr<FakeDisk> disk = std::make_shared<FakeDisk>();
    std::map<std::string, std::string> metadata{};
    std::vector<SafetensorsSpec> specs{};

    RawFileTest() {
        const std::string path = write_sample_state(*disk, "/states", 5, 2);
        StateReader reader{disk, path};
        export_raw(*disk, "/raw", reader);
        const SafetensorsReader file{*disk, "/raw"};
        metadata = file.metadata();
        for (const SafetensorsTensor& tensor : file.tensors()) {
            specs.push_back({tensor.name, tensor.shape, file.dtype_of(tensor)});
        }
    }

    /// Of a file with these metadata and tensors, all zero.
    std::string refusal() {
        disk->remove_all("/forged");
        SafetensorsWriter writer{*disk, "/forged", specs, metadata, Existing::keep};
        for (std::size_t i = 0; i < specs.size(); ++i) {
            std::int64_t elements = 1;
            for (const std::int64_t extent : specs[i].shape) elements *= extent;
            writer.write(i, std::vector<std::byte>(
                                static_cast<std::size_t>(elements * bytes_of(specs[i].dtype))));
        }
        writer.commit();
        try {
            const RawFile file{*disk, "/forged"};
        } catch (const SafetensorsError& error) {
            EXPECT_EQ(error.code(), ExitCode::bad_data);
            return error.reason;
        }
        return "";
    }
    SafetensorsSpec& spec(const std::string& name) {
        return *std::find_if(specs.begin(), specs.end(),
                             [&](const SafetensorsSpec& each) { return each.name == name; });
    }
};

TEST_F(RawFileTest, IsWhatWasExported) {
    const RawFile file{*disk, "/raw"};
    EXPECT_EQ(file.facts(), sample_facts(5));
    EXPECT_EQ(file.table(), sample_table());
    const SampleValues sample{sample_table(), 5};
    for (std::int32_t t = 0; t < 5; ++t) {
        for (const Value value : all_values) {
            const auto expected = sample.of(t, value);
            std::vector<std::byte> bytes(expected.size());
            file.read(t, value, bytes);
            EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin()));
        }
    }
    EXPECT_EQ(refusal(), "");
    EXPECT_TRUE(is_raw(metadata));
    EXPECT_FALSE(is_raw(metadata_of(sample_facts(5))));
}

TEST_F(RawFileTest, OfANewerVersionIsRefused) {
    metadata["rhizome.raw"] = "2";
    EXPECT_THAT(refusal(), HasSubstr("version 2"));
}

TEST_F(RawFileTest, NeedsAllItsMetadata) {
    for (const auto& [key, value] : std::map{metadata}) {
        if (!key.starts_with("rhizome.")) continue;
        const auto whole = metadata;
        metadata.erase(key);
        EXPECT_THAT(refusal(), HasSubstr(key));
        metadata = whole;
    }
}

TEST_F(RawFileTest, HasNumbersThatThereCanBe) {
    for (const std::string key : {"rhizome.steps", "rhizome.samples", "rhizome.samples_per_pass",
                                  "rhizome.chunk_elements"}) {
        const auto whole = metadata;
        for (const std::string value : {"", "-1", "1e3", "99999999999999999999"}) {
            metadata[key] = value;
            EXPECT_THAT(refusal(), HasSubstr(key)) << value;
        }
        metadata = whole;
    }
    metadata["rhizome.steps"] = "2147483648";
    EXPECT_THAT(refusal(), HasSubstr("rhizome.steps"));
    metadata["rhizome.steps"] = "1";
    metadata["rhizome.chunk_elements"] = "0";
    EXPECT_THAT(refusal(), HasSubstr("chunks"));
}

TEST_F(RawFileTest, HasTheHistoryOfAState) {
    const std::string deep(1 << 20, '[');
    const std::string closed(1 << 20, ']');
    for (const std::string& history :
         {std::string{"not a history"}, R"({"a":)" + deep + closed + R"(,"b":1})" + "\n"}) {
        metadata["rhizome.history"] = history;
        EXPECT_THAT(refusal(), HasSubstr("rhizome.history"));
    }
}

TEST_F(RawFileTest, HasExactlyItsTensors) {
    metadata["rhizome.tensors"] += "more/tensors\n";
    EXPECT_THAT(refusal(), HasSubstr("parameter/more/tensors"));
    metadata["rhizome.tensors"] = "head/norm\nhead/norm\n";
    EXPECT_THAT(refusal(), HasSubstr("two tensors head/norm"));
    metadata["rhizome.tensors"] = "head/norm\n";
    metadata["rhizome.ties"] = "";
    EXPECT_THAT(refusal(), HasSubstr("none of the state's"));
}

TEST_F(RawFileTest, HasMomentsLikeTheirParameters) {
    spec("second_moment/head/norm").shape = {4, 4};
    EXPECT_THAT(refusal(), HasSubstr("second_moment/head/norm is not as"));
    spec("second_moment/head/norm") = {"second_moment/head/norm", {16}, DType::f32};
    EXPECT_THAT(refusal(), HasSubstr("second_moment/head/norm is not as"));
}

TEST_F(RawFileTest, HasShapesThatStatesHave) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0, 3}, {1, 1, 2, 2, 4}}) {
        spec("parameter/head/norm").shape = shape;
        EXPECT_THAT(refusal(), HasSubstr("no state has a tensor of the shape"));
    }
}

TEST_F(RawFileTest, HasTiesToItsTensors) {
    metadata["rhizome.ties"] = "head/weight = nothing/there\n";
    EXPECT_THAT(refusal(), HasSubstr("tied to nothing"));
    metadata["rhizome.ties"] = "head/weight\n";
    EXPECT_THAT(refusal(), HasSubstr("rhizome.ties"));
}

}  // namespace
}  // namespace rhizome::state
