#include "state/index_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "state/file_header.hpp"
#include "support/memory_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::state {
namespace {

using ::testing::HasSubstr;

const std::string path = "index.h5";  // NOLINT(cert-err58-cpp): a test may end here

StateIndex sample_index() {
    StateIndex index{
        .facts = sample_facts(500), .table = sample_table(), .shares = {}, .writer_of = {}};
    const std::size_t chunks = index.table.all_chunks().size();
    for (std::size_t i = 0; i < chunks; ++i) {
        index.writer_of.push_back(static_cast<std::int32_t>(i * i % 3));
    }
    index.shares = {{0, 7000, "0123456789abcdef0123456789abcdef"},
                    {1, std::int64_t{1} << 40, "fedcba9876543210fedcba9876543210"},
                    {2, 512, "00000000000000000000000000000000"}};
    return index;
}

IndexFile written_and_read(const StateIndex& index) {
    MemoryFiles files;
    write_index(files, path, index);
    return read_index(files, path);
}

std::string message_of(FileSystem& files) {
    try {
        (void)read_index(files, path);
        return "";
    } catch (const StateError& error) {
        EXPECT_EQ(error.path, path);
        return error.what();
    }
}

TEST(IndexFile, IsReadAsItWasWritten) {
    const StateIndex index = sample_index();
    EXPECT_EQ(written_and_read(index).index, index);
}

TEST(IndexFile, IsReadAsItWasWrittenWhateverIsInIt) {
    StateIndex index = sample_index();
    index.facts = {};
    index.table.ties.clear();
    EXPECT_EQ(written_and_read(index).index, index) << "empty texts";

    index.facts.mathematics = std::string(200'000, 'x') + "\n";
    index.facts.layout = "\n\xc3\xa4\xe2\x82\xac = \"\\\t\x01 ";
    index.facts.steps = INT32_MAX;
    index.facts.samples = INT64_MAX;
    for (int i = 0; i < 2000; ++i) {
        index.facts.history.push_back(
            {"2026-11-30T05:00:00Z", i, "kind", "\n\"{}\\\xc3\xa4\x01" + std::to_string(i)});
        index.table.ties.push_back({"tied/" + std::to_string(i), "head/norm"});
    }
    EXPECT_EQ(written_and_read(index).index, index) << "long texts";

    index.table = {.tensors = {}, .ties = {}, .chunk_elements = INT64_MAX};
    index.writer_of = {};
    index.shares.resize(1);
    EXPECT_EQ(written_and_read(index).index, index) << "no tensors";
}

TEST(IndexFile, KeepsTheOrderOfTensorsWhateverTheirNames) {
    StateIndex index = sample_index();
    index.table = {.tensors = {}, .ties = {}, .chunk_elements = 1};
    index.writer_of.clear();
    for (int i = 0; i < 100; ++i) {
        index.table.tensors.push_back(
            {"layer." + std::to_string(i * 37 % 100) + "/_-." + std::to_string(i),
             Shape{1 + i % 3, 2}, DType::f32});
        index.writer_of.insert(index.writer_of.end(), static_cast<std::size_t>(2 * (1 + i % 3)),
                               i % 3);
    }
    EXPECT_EQ(written_and_read(index).index, index);
}

TEST(IndexFile, ReplacesWhatIsNoUtf8InItsHistory) {
    StateIndex index = sample_index();
    index.facts.history[0].text = "a\xff";
    const auto read = written_and_read(index).index;
    EXPECT_EQ(read.facts.history[0].text, "a\xef\xbf\xbd");
    EXPECT_EQ(read.facts.history[1], index.facts.history[1]);
}

TEST(IndexFile, HasAnotherDigestWhenAnythingInItDiffers) {
    const std::string digest = written_and_read(sample_index()).digest;
    EXPECT_EQ(digest.size(), 32U);
    EXPECT_EQ(written_and_read(sample_index()).digest, digest);
    const std::vector<std::function<void(StateIndex&)>> changes{
        [](StateIndex& index) { ++index.facts.steps; },
        [](StateIndex& index) { index.facts.saved_at += " "; },
        [](StateIndex& index) { index.facts.program += " "; },
        [](StateIndex& index) { index.facts.mathematics += " "; },
        [](StateIndex& index) { index.facts.layout += " "; },
        [](StateIndex& index) { index.facts.mathematics_digest += " "; },
        [](StateIndex& index) { index.facts.data_digest += " "; },
        [](StateIndex& index) { index.facts.fingerprint += " "; },
        [](StateIndex& index) { ++index.facts.samples; },
        [](StateIndex& index) { ++index.facts.samples_per_pass; },
        [](StateIndex& index) { ++index.facts.history[1].steps; },
        [](StateIndex& index) { index.facts.history[1].time += " "; },
        [](StateIndex& index) { index.facts.history[1].kind += " "; },
        [](StateIndex& index) { index.facts.history[1].text += " "; },
        [](StateIndex& index) { index.facts.history.pop_back(); },
        [](StateIndex& index) {
            std::swap(index.table.tensors[1], index.table.tensors[3]);
            std::swap(index.table.tensors[1].shape, index.table.tensors[3].shape);
        },
        [](StateIndex& index) { index.table.tensors[2].name += "x"; },
        [](StateIndex& index) { index.table.tensors[2].dtype = DType::f64; },
        [](StateIndex& index) { index.table.tensors[0].shape = Shape{5, 11}; },
        [](StateIndex& index) { index.table.ties[0].use += "x"; },
        [](StateIndex& index) { index.table.ties[0].owner = "head/norm"; },
        [](StateIndex& index) { ++index.shares[0].bytes; },
        [](StateIndex& index) { index.shares[2].digest[31] = '1'; },
        [](StateIndex& index) { index.writer_of[0] = 2; }};
    for (std::size_t i = 0; i < changes.size(); ++i) {
        StateIndex index = sample_index();
        changes[i](index);
        const IndexFile read = written_and_read(index);
        EXPECT_NE(read.digest, digest) << i;
        EXPECT_EQ(read.index, index) << i;
    }
}

TEST(IndexFile, NoticesEveryChangedBit) {
    MemoryFiles files;
    write_index(files, path, sample_index());
    MemoryFiles::Bytes& bytes = files.content(path);
    const auto changed = [&](std::size_t bit) {
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        std::string message = message_of(files);
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        return message;
    };
    for (std::size_t bit = 0; bit < std::size_t{header_bytes} * 8; ++bit) {
        EXPECT_THAT(changed(bit), HasSubstr("index.h5 (header: ")) << bit;
    }
    for (std::size_t bit = std::size_t{header_bytes} * 8; bit < bytes.size() * 8; bit += 13) {
        EXPECT_THAT(changed(bit), HasSubstr("(structure: differs from its digest)")) << bit;
    }
    EXPECT_EQ(message_of(files), "");
}

TEST(IndexFile, NoticesThatItWasCutOffOrGrew) {
    MemoryFiles files;
    write_index(files, path, sample_index());
    const MemoryFiles::Bytes whole = files.content(path);
    for (std::size_t percent = 0; percent <= 200; ++percent) {
        if (percent == 100) continue;
        files.content(path) = whole;
        files.content(path).resize(whole.size() * percent / 100);
        EXPECT_THAT(message_of(files), HasSubstr("(header: the file has ")) << percent;
    }
}

TEST(IndexFile, OfANewerVersionSaysSo) {
    MemoryFiles files;
    write_index(files, path, sample_index());
    constexpr std::string_view line = "rhizome state index 7\n";
    std::memcpy(files.content(path).data(), line.data(), line.size());
    EXPECT_EQ(message_of(files),
              "state file index.h5 (header: written by a newer rhizome: format 7, this one reads "
              "1), use that rhizome");
}

TEST(IndexFile, ThatCannotBeWrittenIsAFileError) {
    MemoryFiles files;
    write_index(files, path, sample_index());
    const int changes = files.changes();
    for (int n = 0; n < changes; ++n) {
        files.fail_never();
        files.remove_all(path);
        files.fail_after(n);
        EXPECT_THROW(write_index(files, path, sample_index()), FileError) << n;
    }
}

TEST(IndexFile, LeavesOutWholeTensorsWhenTheyWouldBeInTooManyPieces) {
    constexpr std::int64_t elements = 100'001;
    StateIndex index{.facts = sample_facts(1),
                     .table = {.tensors = {{"a/b", Shape{elements}, DType::f32}},
                               .ties = {},
                               .chunk_elements = 1},
                     .shares = sample_index().shares,
                     .writer_of = {}};
    for (std::int64_t i = 0; i < elements; ++i) {
        index.writer_of.push_back(static_cast<std::int32_t>(i % 2));
    }
    MemoryFiles files;
    write_index(files, path, index);
    EXPECT_EQ(read_index(files, path).index, index);
    EXPECT_LT(files.content(path).size(), std::size_t{2} << 20);  // with them: a hundred times that
}

}  // namespace
}  // namespace rhizome::state
