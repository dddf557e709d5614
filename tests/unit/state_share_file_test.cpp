#include "state/share_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "support/memory_disk.hpp"
#include "support/sample_state.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace rhizome::state {
namespace {

/// HDF5 itself forgets memory when what it parses is nonsense.
#ifdef __SANITIZE_ADDRESS__
using LeaksAllowed = __lsan::ScopedDisabler;
#else
struct LeaksAllowed {
    LeaksAllowed() {}  // so that an object of it is no unused variable
};
#endif

using ::testing::HasSubstr;

constexpr std::int32_t steps = 500;
const std::string path = "share-00003.h5";  // NOLINT(cert-err58-cpp): a test may end here

std::array<std::byte, 16> digest_of(std::span<const std::byte> bytes) {
    Digest digest;
    digest.add(bytes);
    return digest.bytes();
}

std::string message_of(FileSystem& files, const StoredTable& table) {
    try {
        const ShareReader reader{files, path, table};
        return "";
    } catch (const StateError& error) {
        EXPECT_EQ(error.path, path);
        return error.what();
    }
}

struct Written {
    StoredTable table = sample_table();
    SampleValues values{table, steps};
    std::vector<StoredChunk> chunks = chunks_of_writer(table, 0, 1);
    MemoryFiles files{};
    ShareFacts facts{};

    Written() { write(); }
    Written(StoredTable of, std::int32_t writer, std::int32_t writers)
        : table{std::move(of)}, chunks{chunks_of_writer(table, writer, writers)} {
        write();
    }

    void write() { facts = write_share(files, path, table, steps, 3, values.chunks(chunks)); }
    [[nodiscard]] MemoryFiles::Bytes& bytes() { return files.content(path); }
    [[nodiscard]] std::size_t structure() {
        return read_start(files, path, FileKind::share).bytes.size();
    }
    /// Values as docs/STATE.md puts them: one after the other, each with its place.
    [[nodiscard]] std::vector<std::pair<std::string, MemoryFiles::Bytes>> stored_values() const {
        std::vector<std::pair<std::string, MemoryFiles::Bytes>> all;
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(table.tensors.size()); ++t) {
            for (const Value value : all_values) {
                for (const StoredChunk chunk : chunks) {
                    if (chunk.tensor != t) continue;
                    const auto bytes = values.of(chunk, value);
                    all.emplace_back(table.tensors[static_cast<std::size_t>(t)].name + "#" +
                                         std::to_string(chunk.chunk) + " " +
                                         std::string{name_of(value)},
                                     MemoryFiles::Bytes{bytes.begin(), bytes.end()});
                }
            }
        }
        return all;
    }
};

TEST(ShareFile, IsReadAsItWasWritten) {
    Written share{sample_table(), 1, 3};
    const ShareReader reader{share.files, path, share.table};
    EXPECT_EQ(reader.facts(), share.facts);
    EXPECT_EQ(reader.steps(), steps);
    EXPECT_EQ(reader.chunks(), share.chunks);
    for (const StoredChunk chunk : share.chunks) {
        for (const Value value : all_values) {
            const auto expected = share.values.of(chunk, value);
            std::vector<std::byte> read(expected.size());
            reader.read(chunk, value, read);
            EXPECT_TRUE(std::ranges::equal(read, expected));
            EXPECT_EQ(reader.digest_of(chunk, value), digest_of(expected));
        }
    }
    for (const StoredChunk chunk : chunks_of_writer(share.table, 0, 3)) {
        EXPECT_EQ(reader.digest_of(chunk, Value::parameter), std::nullopt);
    }
}

TEST(ShareFile, MayHaveNoChunks) {
    Written share;
    share.files.remove_all(path);
    share.chunks.clear();
    share.write();
    const ShareReader reader{share.files, path, share.table};
    EXPECT_TRUE(reader.chunks().empty());
    EXPECT_EQ(reader.facts().bytes, static_cast<std::int64_t>(share.structure()));
}

TEST(ShareFile, OfTheSameContentHasTheSameBytes) {
    Written one;
    Written other;
    EXPECT_EQ(one.bytes(), other.bytes());
    EXPECT_EQ(one.facts, other.facts);
}

/// Many tensors in many layers, so that HDF5 has to rebuild its groups on the way.
StoredTable large_table(std::int64_t chunk_elements) {
    StoredTable table{.tensors = {}, .ties = {}, .chunk_elements = chunk_elements};
    for (int layer = 0; layer < 40; ++layer) {
        for (int tensor = 0; tensor < 1 + layer % 13; ++tensor) {
            const DType type = (layer + tensor) % 3 == 0 ? DType::f64 : DType::f32;
            table.tensors.push_back(
                {"layer." + std::to_string(layer) + "/t" + std::to_string(tensor),
                 Shape{1 + layer % 5, 1 + tensor}, type});
        }
    }
    return table;
}

TEST(ShareFile, EndsWithItsValuesWithoutGaps) {
    for (const std::int64_t chunk_elements : {1, 7, 1000}) {
        for (const std::int32_t writers : {1, 3}) {
            StoredTable table = sample_table();
            table.chunk_elements = chunk_elements;
            const StoredTable large = large_table(chunk_elements);
            for (const StoredTable& one : {table, large}) {
                MemoryFiles files;
                const SampleValues values{one, steps};
                const auto chunks = chunks_of_writer(one, writers - 1, writers);
                write_share(files, path, one, steps, 0, values.chunks(chunks));
                MemoryFiles::Bytes expected;
                for (std::size_t first = 0; first < chunks.size();) {
                    std::size_t last = first;
                    while (last < chunks.size() && chunks[last].tensor == chunks[first].tensor) {
                        ++last;
                    }
                    for (const Value value : all_values) {
                        for (std::size_t i = first; i < last; ++i) {
                            const auto bytes = values.of(chunks[i], value);
                            expected.insert(expected.end(), bytes.begin(), bytes.end());
                        }
                    }
                    first = last;
                }
                const auto start = read_start(files, path, FileKind::share);
                const auto all = std::span{files.content(path)};
                EXPECT_TRUE(std::ranges::equal(all.subspan(start.bytes.size()), expected));
                EXPECT_EQ((ShareReader{files, path, one}).chunks(), chunks);
            }
        }
    }
}

TEST(ShareFile, BeginsWithTextForPeople) {
    Written share;
    std::string text(header_bytes, ' ');
    std::memcpy(text.data(), share.bytes().data(), header_bytes);
    EXPECT_THAT(text, ::testing::StartsWith("rhizome state share 1\nwriter 3\nsteps 500\nbytes " +
                                            std::to_string(share.bytes().size()) + "\nstructure " +
                                            std::to_string(share.structure()) + "\ndigest "));
    EXPECT_THAT(text, HasSubstr("\ncheck " + share.facts.digest + "\n\n"));
    EXPECT_TRUE(text.ends_with("\n\n"));
    EXPECT_EQ(text_of(parse_header(text, FileKind::share, path)), text);
}

TEST(ShareFile, NoticesEveryChangedBitOfItsHeader) {
    Written share;
    for (std::size_t bit = 0; bit < std::size_t{header_bytes} * 8; ++bit) {
        const auto mask = std::byte{1} << (bit % 8);
        share.bytes()[bit / 8] ^= mask;
        EXPECT_THAT(message_of(share.files, share.table), HasSubstr(path + " (header: ")) << bit;
        share.bytes()[bit / 8] ^= mask;
    }
    EXPECT_EQ(message_of(share.files, share.table), "");
}

TEST(ShareFile, NoticesEveryChangedByteOfItsStructure) {
    Written share;
    const std::size_t structure = share.structure();
    for (std::size_t i = header_bytes; i < structure; ++i) {
        const auto mask = std::byte{1} << (i % 8);
        share.bytes()[i] ^= mask;
        EXPECT_EQ(message_of(share.files, share.table),
                  "state file share-00003.h5 (structure: differs from its digest), use another "
                  "state or another copy of this one")
            << i;
        share.bytes()[i] ^= mask;
    }
    EXPECT_EQ(message_of(share.files, share.table), "");
}

TEST(ShareFile, NoticesEveryChangedByteOfItsValuesWhenTheyAreRead) {
    Written share;
    const ShareReader reader{share.files, path, share.table};
    std::size_t at = share.structure();
    for (const auto& [place, bytes] : share.stored_values()) {
        for (std::size_t i = 0; i < bytes.size(); ++i, ++at) {
            share.bytes()[at] ^= std::byte{1} << (i % 8);
            std::vector<std::string> damaged;
            // The chunk around it is enough: all others have bytes of their own.
            for (const StoredChunk chunk : share.chunks) {
                const auto& name = share.table.tensors[static_cast<std::size_t>(chunk.tensor)].name;
                if (!place.starts_with(name + "#" + std::to_string(chunk.chunk) + " ")) continue;
                for (const Value value : all_values) {
                    std::vector<std::byte> read(
                        static_cast<std::size_t>(share.table.bytes_of(chunk)));
                    try {
                        reader.read(chunk, value, read);
                    } catch (const StateError& error) {
                        EXPECT_EQ(error.reason, "differs from its digest");
                        damaged.push_back(error.place);
                    }
                }
            }
            EXPECT_THAT(damaged, ::testing::ElementsAre(place)) << i;
            share.bytes()[at] ^= std::byte{1} << (i % 8);
        }
    }
    EXPECT_EQ(at, share.bytes().size());
}

TEST(ShareFile, NoticesThatItWasCutOffOrGrew) {
    Written share;
    const MemoryFiles::Bytes whole = share.bytes();
    for (std::size_t percent = 0; percent < 100; ++percent) {
        share.bytes() = whole;
        share.bytes().resize(whole.size() * percent / 100);
        EXPECT_THAT(message_of(share.files, share.table), HasSubstr("(header: the file has "))
            << percent;
    }
    for (const std::size_t bytes : {whole.size() - 1, whole.size() + 1}) {
        share.bytes() = whole;
        share.bytes().resize(bytes);
        EXPECT_THAT(message_of(share.files, share.table),
                    HasSubstr("(header: the file has " + std::to_string(bytes) +
                              " bytes and should have " + std::to_string(whole.size()) + ")"));
    }
}

void replace_text(MemoryFiles::Bytes& bytes, std::string_view old, std::string_view other) {
    ASSERT_EQ(old.size(), other.size());
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), header_bytes};
    const std::size_t at = text.find(old);
    ASSERT_NE(at, std::string_view::npos);
    std::memcpy(bytes.data() + at, other.data(), other.size());
}

TEST(ShareFile, OfANewerVersionSaysSo) {
    Written share;
    replace_text(share.bytes(), "share 1", "share 2");
    EXPECT_EQ(message_of(share.files, share.table),
              "state file share-00003.h5 (header: written by a newer rhizome: format 2, this one "
              "reads 1), use that rhizome");
}

TEST(ShareFile, IsNotAnIndexNorAnythingElse) {
    Written share;
    replace_text(share.bytes(), "share 1", "index 1");
    EXPECT_THAT(message_of(share.files, share.table), HasSubstr("this is a state's index"));
    replace_text(share.bytes(), "rhizome", "Rhizome");
    EXPECT_THAT(message_of(share.files, share.table), HasSubstr("begins like no file of a state"));
}

/// A header that is right in itself, over whatever is behind it.
void seal(MemoryFiles::Bytes& bytes, FileHeader header) {
    Digest digest;
    digest.add(std::span{bytes}.subspan(header_bytes,
                                        static_cast<std::size_t>(header.structure) - header_bytes));
    header.digest = digest.hex();
    header.bytes = static_cast<std::int64_t>(bytes.size());
    const std::string text = text_of(header);
    std::memcpy(bytes.data(), text.data(), text.size());
}

TEST(ShareFile, WithAForgedHeaderIsRefused) {
    [[maybe_unused]] const LeaksAllowed leaks;  // of HDF5, which is made to parse the forgery
    Written share;
    const FileHeader header = read_start(share.files, path, FileKind::share).header;
    const MemoryFiles::Bytes whole = share.bytes();
    const auto message = [&](auto change) {
        share.bytes() = whole;
        FileHeader forged = header;
        change(forged, share.bytes());
        seal(share.bytes(), forged);
        return message_of(share.files, share.table);
    };
    using Bytes = MemoryFiles::Bytes;
    EXPECT_EQ(message([](FileHeader&, Bytes&) {}), "");
    EXPECT_THAT(message([](FileHeader& forged, Bytes&) { forged.steps += 1; }),
                HasSubstr("(structure: attributes differ from the header)"));
    EXPECT_THAT(message([](FileHeader& forged, Bytes&) { forged.writer += 1; }),
                HasSubstr("(structure: attributes differ from the header)"));
    EXPECT_THAT(message([](FileHeader&, Bytes& bytes) { bytes.emplace_back(); }),
                HasSubstr("(structure: its values do not end where the file does)"));
    EXPECT_THAT(message([](FileHeader&, Bytes& bytes) { bytes.pop_back(); }),
                HasSubstr("(structure: "));
    EXPECT_THAT(message([](FileHeader& forged, Bytes&) { forged.structure += 4; }),
                HasSubstr("is not where it should be)"));
    EXPECT_THAT(message([](FileHeader& forged, Bytes&) { forged.structure -= 4; }),
                HasSubstr("(structure: "));
    EXPECT_THAT(message([](FileHeader& forged, Bytes&) { forged.structure = header_bytes; }),
                HasSubstr("(structure: HDF5 refuses this file)"));
}

/// HDF5 finds most of it by its own checksums; whatever it makes of the rest, it must not crash,
/// and values that were not touched must be read as they were written or not at all.
TEST(ShareFile, WithAForgedStructureIsRefusedOrReadsNothingElse) {
    const LeaksAllowed allowed;
    Written share;
    const FileHeader header = read_start(share.files, path, FileKind::share).header;
    const MemoryFiles::Bytes whole = share.bytes();
    int refused = 0;
    int tried = 0;
    for (auto i = std::size_t{header_bytes}; i < static_cast<std::size_t>(header.structure);
         i += 17) {
        share.bytes() = whole;
        share.bytes()[i] ^= std::byte{1} << (i % 8);
        seal(share.bytes(), header);
        ++tried;
        try {
            const ShareReader reader{share.files, path, share.table};
            for (const StoredChunk chunk : reader.chunks()) {
                const auto expected = share.values.of(chunk, Value::first_moment);
                std::vector<std::byte> read(expected.size());
                reader.read(chunk, Value::first_moment, read);
                EXPECT_TRUE(std::ranges::equal(read, expected)) << i;
            }
        } catch (const StateError&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, tried / 2);
}

TEST(ShareFile, OfOtherTensorsIsRefused) {
    Written share;
    const auto message = [&](auto change) {
        StoredTable table = share.table;
        change(table);
        return message_of(share.files, table);
    };
    EXPECT_THAT(message([](StoredTable& table) { table.tensors.pop_back(); }),
                HasSubstr("(structure: it has tensors that the state has not)"));
    EXPECT_THAT(message([](StoredTable& table) { table.tensors.erase(table.tensors.begin() + 2); }),
                HasSubstr("(structure: it has tensors that the state has not)"));
    EXPECT_THAT(message([](StoredTable& table) { table.tensors[0].dtype = DType::f64; }),
                HasSubstr("(structure: embedding/token: parameter has another type)"));
    EXPECT_THAT(message([](StoredTable& table) { table.tensors[0].shape = Shape{56}; }),
                HasSubstr("(structure: embedding/token: parameter has other extents)"));
    EXPECT_THAT(message([](StoredTable& table) { table.tensors[0].shape = Shape{3}; }),
                HasSubstr("(structure: embedding/token: chunks has an impossible length)"));
    EXPECT_THAT(message([](StoredTable& table) { std::swap(table.tensors[0], table.tensors[4]); }),
                HasSubstr("is not where it should be"));
    // One more is fine: nobody says that this share has it.
    EXPECT_EQ(message([](StoredTable& table) {
                  table.tensors.push_back({"head/more", Shape{2}, DType::f32});
              }),
              "");
}

TEST(ShareFile, ThatCannotBeWrittenIsAFileError) {
    Written share;
    const int changes = share.files.changes();
    EXPECT_GT(changes, 10);
    for (int n = 0; n < changes; ++n) {
        share.files.fail_never();
        share.files.remove_all(path);
        share.files.fail_after(n);
        EXPECT_THROW(share.write(), FileError) << n;
        // The header comes last, so whatever is there is no share.
        if (share.files.kind_of(path) && n + 1 < changes) {
            EXPECT_NE(message_of(share.files, share.table), "");
        }
    }
    share.files.fail_never();
    share.files.remove_all(path);
    share.write();
    EXPECT_EQ(message_of(share.files, share.table), "");
    EXPECT_THROW(share.write(), FileError);  // the name is taken
}

TEST(ShareFile, ThatIsMissingIsAFileError) {
    MemoryFiles files;
    EXPECT_THROW((ShareReader{files, path, sample_table()}), FileError);
}

TEST(ShareFile, ManyAreWrittenAndReadAtTheSameTime) {
    std::vector<std::thread> threads;
    std::array<bool, 4> same{};
    for (std::size_t i = 0; i < same.size(); ++i) {
        threads.emplace_back([&same, i] {
            bool all = true;
            for (int n = 0; n < 5; ++n) {
                Written share{sample_table(), static_cast<std::int32_t>(i), 4};
                const ShareReader reader{share.files, path, share.table};
                all = all && reader.chunks() == share.chunks && reader.facts() == share.facts;
            }
            same.at(i) = all;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(same, ::testing::Each(true));
}

TEST(ShareName, HasItsWriterAndNothingElse) {
    EXPECT_EQ(share_name(3), "share-00003.h5");
    EXPECT_EQ(share_name(1234567), "share-1234567.h5");
    for (const std::int32_t writer : {0, 3, 99999, 100000, INT32_MAX}) {
        EXPECT_EQ(writer_of_name(share_name(writer)), writer);
    }
    for (const char* name :
         {"share-3.h5", "share-000003.h5", "share-00003.h5.part", "share-.h5", "share-0000x.h5",
          "share--0003.h5", "index.h5", "", "share-h5", "share-99999999999.h5"}) {
        EXPECT_EQ(writer_of_name(name), std::nullopt) << name;
    }
}

}  // namespace
}  // namespace rhizome::state
