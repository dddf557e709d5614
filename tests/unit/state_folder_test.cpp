#include "state/state_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "support/memory_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::state {

void PrintTo(const Fault& fault, std::ostream* out) {
    *out << fault.file << ": " << fault.place << ": " << fault.reason;
}

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string runs = "runs/a/states";  // NOLINT(cert-err58-cpp): a test may end here

auto is_fault(const std::string& file, const std::string& place, const std::string& reason) {
    return AllOf(Field(&Fault::file, file), Field(&Fault::place, place),
                 Field(&Fault::reason, HasSubstr(reason)));
}

std::vector<std::string> names_in(FileSystem& files, const std::string& folder) {
    std::vector<std::string> names;
    for (const Entry& entry : files.list(folder)) names.push_back(entry.name);
    return names;
}

/// As a run's last table computes it.
std::string weights_of(const StoredTable& table, const SampleValues& values) {
    Digest all;
    for (const StoredChunk chunk : table.all_chunks()) {
        Digest digest;
        for (const Value value : all_values) digest.add(values.of(chunk, value));
        all.add_text(table.tensors[static_cast<std::size_t>(chunk.tensor)].name + "#" +
                     std::to_string(chunk.chunk));
        all.add_text(digest.hex());
    }
    return all.hex();
}

struct Saved {
    std::shared_ptr<MemoryFiles> files = std::make_shared<MemoryFiles>();
    StoredTable table = sample_table();
    std::string path{};

    explicit Saved(std::int32_t steps = 500, std::int32_t writers = 3) {
        path = write_sample_state(*files, runs, steps, writers);
    }
    [[nodiscard]] Verified verified() const { return verify_state(files, path); }
    [[nodiscard]] MemoryFiles::Bytes& bytes(const std::string& name) const {
        return files->content(path + "/" + name);
    }
};

TEST(StateName, HasItsStepsAndNothingElse) {
    EXPECT_EQ(state_name(500), "step-00000500");
    EXPECT_EQ(state_name(INT32_MAX), "step-2147483647");
    for (const std::int32_t steps : {0, 7, 99'999'999, 100'000'000, INT32_MAX}) {
        EXPECT_EQ(steps_of_name(state_name(steps)), steps);
    }
    for (const char* name :
         {"step-500", "step-000000500", "step-0000050x", "step--0000500", ".step-00000500",
          "step-00000500.part", "step-", "", "state-00000500", "step-99999999999"}) {
        EXPECT_EQ(steps_of_name(name), std::nullopt) << name;
    }
}

TEST(State, ThatWasSavedIsFoundAndWhole) {
    const Saved saved;
    EXPECT_EQ(saved.path, runs + "/step-00000500");
    EXPECT_THAT(find_states(*saved.files, runs), ElementsAre(FoundState{saved.path, 500}));
    EXPECT_THAT(names_in(*saved.files, saved.path),
                ElementsAre("index.h5", "share-00000.h5", "share-00001.h5", "share-00002.h5"));
    EXPECT_THAT(names_in(*saved.files, runs), ElementsAre("step-00000500"));
    const Verified verified = saved.verified();
    EXPECT_THAT(verified.faults, IsEmpty());
    EXPECT_EQ(verified.weights, weights_of(saved.table, SampleValues{saved.table, 500}));
    std::size_t bytes = 0;
    for (const std::string& name : names_in(*saved.files, saved.path)) {
        bytes += saved.bytes(name).size();
    }
    EXPECT_EQ(verified.bytes, static_cast<std::int64_t>(bytes));
}

TEST(State, HasTheSameWeightsWhoeverWroteIt) {
    const std::string weights = Saved{500, 1}.verified().weights;
    EXPECT_EQ((Saved{500, 2}.verified().weights), weights);
    EXPECT_EQ((Saved{500, 40}.verified().weights), weights);  // some with nothing to write
    EXPECT_NE((Saved{501, 1}.verified().weights), weights);
}

TEST(State, OutlivesALossOfPowerUnderItsName) {
    const Saved saved;
    EXPECT_THAT(saved.files->folder_syncs(),
                ElementsAre("runs/a", "runs", ".", runs + "/.step-00000500.part", runs));
}

TEST(State, IsReadInAnyOrder) {
    const Saved saved;
    const SampleValues values{saved.table, 500};
    StateReader reader{saved.files, saved.path};
    EXPECT_EQ(reader.index().facts, sample_facts(500));
    EXPECT_EQ(reader.index().table, saved.table);
    EXPECT_EQ(reader.path(), saved.path);
    EXPECT_EQ(reader.digest().size(), 32U);
    std::vector<StoredChunk> chunks = saved.table.all_chunks();
    std::ranges::reverse(chunks);
    for (const StoredChunk chunk : chunks) {
        for (const Value value : all_values) {
            std::vector<std::byte> bytes(static_cast<std::size_t>(saved.table.bytes_of(chunk)));
            reader.read(chunk, value, bytes);
            EXPECT_TRUE(std::ranges::equal(bytes, values.of(chunk, value)));
        }
    }
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(saved.table.tensors.size()); ++t) {
        for (const Value value : all_values) {
            const auto expected = values.of(t, value);
            std::vector<std::byte> bytes(expected.size());
            reader.read_tensor(t, value, bytes);
            EXPECT_TRUE(std::ranges::equal(bytes, expected));
        }
    }
}

TEST(FindStates, GivesTheNewestFirstAndOnlyStates) {
    MemoryFiles files;
    EXPECT_THAT(find_states(files, runs), IsEmpty());
    for (const char* name : {"step-00000010", "step-00000200", "step-00000003",
                             ".step-00000004.part", "step-5", "logs", "step-00000006.old"}) {
        files.make_folder(runs + "/" + name);
    }
    files.put(runs + "/step-00000007", {});  // a file
    EXPECT_THAT(find_states(files, runs), ElementsAre(FoundState{runs + "/step-00000200", 200},
                                                      FoundState{runs + "/step-00000010", 10},
                                                      FoundState{runs + "/step-00000003", 3}));
}

TEST(BeginState, RemovesWhatEarlierAttemptsLeftAndNothingElse) {
    MemoryFiles files;
    for (const char* name :
         {".step-00000004.part", ".step-00000007.part", ".step-00000004.gone", ".hidden",
          ".step-4.part", "step-00000004", "other", ".step-00000004.old"}) {
        files.make_folder(runs + "/" + name);
        files.put(runs + "/" + name + "/file", {});
    }
    begin_state(files, runs, 7);
    EXPECT_THAT(names_in(files, runs), ElementsAre(".hidden", ".step-00000007.part", ".step-4.part",
                                                   "other", "step-00000004"));
    EXPECT_THAT(names_in(files, part_folder(runs, 7)), IsEmpty());
    abandon_state(files, runs, 7);
    EXPECT_EQ(files.kind_of(part_folder(runs, 7)), std::nullopt);
    abandon_state(files, runs, 7);  // fine
}

std::string message_of_commit(MemoryFiles& files, std::int32_t steps, std::int32_t writers) {
    try {
        (void)commit_state(files, runs, sample_facts(steps), sample_table(), writers);
        return "";
    } catch (const StateError& error) {
        EXPECT_THAT(find_states(files, runs), IsEmpty());
        return error.what();
    }
}

TEST(CommitState, RefusesSharesThatAreNoWholeState) {
    const StoredTable table = sample_table();
    const SampleValues values{table, 7};
    const std::string part = part_folder(runs, 7);
    MemoryFiles files;
    begin_state(files, runs, 7);
    const auto write = [&](std::int32_t name, std::int32_t writer, std::int32_t steps,
                           const std::vector<StoredChunk>& chunks) {
        files.remove_all(part + "/" + share_name(name));
        write_share(files, part + "/" + share_name(name), table, steps, writer,
                    values.chunks(chunks));
    };
    write(0, 0, 7, chunks_of_writer(table, 0, 3));
    write(1, 1, 7, chunks_of_writer(table, 1, 3));
    EXPECT_THROW((void)commit_state(files, runs, sample_facts(7), table, 3), FileError);
    EXPECT_THAT(message_of_commit(files, 7, 2),
                HasSubstr(part + " (embedding/token#2: is in no share)"));
    write(2, 2, 7, chunks_of_writer(table, 1, 3));
    EXPECT_THAT(message_of_commit(files, 7, 3),
                HasSubstr("share-00002.h5 (embedding/token#1: is in share-00001.h5 as well)"));
    write(2, 2, 6, chunks_of_writer(table, 2, 3));
    EXPECT_THAT(message_of_commit(files, 7, 3), HasSubstr("(header: is of writer 2 and step 6)"));
    write(2, 1, 7, chunks_of_writer(table, 2, 3));
    EXPECT_THAT(message_of_commit(files, 7, 3), HasSubstr("(header: is of writer 1 and step 7)"));
    write(2, 2, 7, chunks_of_writer(table, 2, 3));
    EXPECT_EQ(message_of_commit(files, 7, 3), "");
}

TEST(CommitState, ReplacesAStateOfTheSameName) {
    Saved saved;
    saved.bytes("share-00001.h5").back() ^= std::byte{1};
    EXPECT_THAT(saved.verified().faults, Not(IsEmpty()));
    write_sample_state(*saved.files, runs, 500, 2);
    EXPECT_THAT(names_in(*saved.files, runs), ElementsAre("step-00000500"));
    EXPECT_THAT(names_in(*saved.files, saved.path),
                ElementsAre("index.h5", "share-00000.h5", "share-00001.h5"));
    EXPECT_THAT(saved.verified().faults, IsEmpty());
}

/// A process that may end between any two operations: what has a final name is whole at any time,
/// and a state that was there before is there again after the next beginning at the latest.
TEST(CommitState, LeavesWholeStatesOnlyWhereverItEnds) {
    for (const bool replaces : {false, true}) {
        int changes = 0;
        {
            Saved saved;
            const int before = saved.files->changes();
            write_sample_state(*saved.files, runs, replaces ? 500 : 600, 2);
            changes = saved.files->changes() - before;
        }
        int missing = 0;
        for (int n = 0; n < changes; ++n) {
            const Saved saved;
            saved.files->fail_after(n);
            EXPECT_THROW(write_sample_state(*saved.files, runs, replaces ? 500 : 600, 2),
                         FileError);
            saved.files->fail_never();
            for (const FoundState& found : find_states(*saved.files, runs)) {
                EXPECT_THAT(verify_state(saved.files, found.path).faults, IsEmpty()) << n;
            }
            if (find_states(*saved.files, runs).empty()) ++missing;
            begin_state(*saved.files, runs, 700);
            const auto found = find_states(*saved.files, runs);
            ASSERT_FALSE(found.empty()) << n;
            EXPECT_EQ(found.back(), (FoundState{saved.path, 500}));
            EXPECT_THAT(verify_state(saved.files, saved.path).faults, IsEmpty()) << n;
            EXPECT_EQ(names_in(*saved.files, runs).size(), found.size() + 1) << n;
        }
        EXPECT_EQ(missing, replaces ? 1 : 0);  // between two renames
    }
}

TEST(Prune, KeepsTheNewestAndTheMultiples) {
    const auto steps_pruned = [](const std::vector<std::int32_t>& steps, KeepRule rule) {
        std::vector<FoundState> states;
        for (const std::int32_t s : steps) states.push_back({state_name(s), s});
        std::vector<std::int32_t> pruned;
        for (const FoundState& state : to_prune(states, rule)) pruned.push_back(state.steps);
        return pruned;
    };
    const std::vector<std::int32_t> steps{50, 40, 30, 20, 10, 0};
    EXPECT_THAT(steps_pruned(steps, {.last = 1}), ElementsAre(0, 10, 20, 30, 40));
    EXPECT_THAT(steps_pruned(steps, {.last = 2}), ElementsAre(0, 10, 20, 30));
    EXPECT_THAT(steps_pruned(steps, {.last = 6}), IsEmpty());
    EXPECT_THAT(steps_pruned(steps, {.last = INT32_MAX}), IsEmpty());
    EXPECT_THAT(steps_pruned(steps, {.last = 1, .every = 20}), ElementsAre(10, 30));
    EXPECT_THAT(steps_pruned({10, 50, 0, 30}, {.last = 2}), ElementsAre(0, 10));
    EXPECT_THAT(steps_pruned({}, {.last = 2}), IsEmpty());
}

TEST(RemoveState, LeavesNothingOrAHiddenRest) {
    const Saved saved;
    const FoundState state = find_states(*saved.files, runs).at(0);
    saved.files->fail_after(2);
    EXPECT_THROW(remove_state(*saved.files, state), FileError);
    EXPECT_THAT(find_states(*saved.files, runs), IsEmpty());
    EXPECT_THAT(names_in(*saved.files, runs), ElementsAre(".step-00000500.gone"));
    saved.files->fail_never();
    write_sample_state(*saved.files, runs, 500, 1);
    remove_state(*saved.files, state);
    EXPECT_THAT(names_in(*saved.files, runs), IsEmpty());
}

TEST(VerifyState, NamesEveryDamagedValue) {
    const Saved saved;
    for (std::int32_t writer = 0; writer < 3; ++writer) {
        const std::string name = share_name(writer);
        std::size_t at =
            read_start(*saved.files, saved.path + "/" + name, FileKind::share).bytes.size();
        const auto chunks = chunks_of_writer(saved.table, writer, 3);
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(saved.table.tensors.size()); ++t) {
            for (const Value value : all_values) {
                for (const StoredChunk chunk : chunks) {
                    if (chunk.tensor != t) continue;
                    const auto size = static_cast<std::size_t>(saved.table.bytes_of(chunk));
                    const std::string place =
                        saved.table.tensors[static_cast<std::size_t>(t)].name + "#" +
                        std::to_string(chunk.chunk) + " " + std::string{name_of(value)};
                    for (const std::size_t i : {std::size_t{0}, size / 2, size - 1}) {
                        saved.bytes(name)[at + i] ^= std::byte{64};
                        const Verified verified = saved.verified();
                        EXPECT_THAT(verified.faults,
                                    ElementsAre(is_fault(name, place, "differs from its digest")));
                        EXPECT_EQ(verified.weights, "");
                        saved.bytes(name)[at + i] ^= std::byte{64};
                    }
                    at += size;
                }
            }
        }
        EXPECT_EQ(at, saved.bytes(name).size());
    }
    EXPECT_THAT(saved.verified().faults, IsEmpty());
}

TEST(VerifyState, NamesDamagedHeadersAndStructures) {
    const Saved saved;
    for (const std::string& name : names_in(*saved.files, saved.path)) {
        const std::size_t structure =
            read_start(*saved.files, saved.path + "/" + name,
                       name == index_name ? FileKind::index : FileKind::share)
                .bytes.size();
        for (std::size_t at = 0; at < structure; at += at < header_bytes ? 5 : 601) {
            saved.bytes(name)[at] ^= std::byte{4};
            EXPECT_THAT(saved.verified().faults,
                        ElementsAre(is_fault(name, at < header_bytes ? "header" : "structure", "")))
                << at;
            saved.bytes(name)[at] ^= std::byte{4};
        }
    }
}

TEST(VerifyState, NamesEveryFileThatWasCutOff) {
    const Saved saved;
    for (const std::string& name : names_in(*saved.files, saved.path)) {
        const MemoryFiles::Bytes whole = saved.bytes(name);
        for (std::size_t percent = 0; percent < 100; ++percent) {
            saved.bytes(name).resize(whole.size() * percent / 100);
            EXPECT_THAT(saved.verified().faults,
                        ElementsAre(is_fault(name, "header", "the file has ")))
                << percent;
            saved.bytes(name) = whole;
        }
    }
}

TEST(VerifyState, NamesEveryMissingAndEverySurplusFile) {
    for (const char* name : {"index.h5", "share-00000.h5", "share-00001.h5", "share-00002.h5"}) {
        const Saved saved;
        saved.files->remove_all(saved.path + "/" + name);
        EXPECT_THAT(saved.verified().faults, ElementsAre(is_fault(name, "file", "is missing")));
    }
    const Saved saved;
    const MemoryFiles::Bytes share = saved.bytes("share-00000.h5");
    for (const char* name : {"share-00003.h5", "index.h5.bak", "weights"}) {
        saved.files->put(saved.path + "/" + name, share);
        EXPECT_THAT(saved.verified().faults,
                    ElementsAre(is_fault(name, "file", "is none of this state's")));
        saved.files->remove_all(saved.path + "/" + name);
    }
    saved.files->make_folder(saved.path + "/folder");
    EXPECT_THAT(saved.verified().faults, ElementsAre(is_fault("folder", "file", "is none of")));
    saved.files->remove_all(saved.path + "/folder");
    saved.files->put(saved.path + "/.nfs0001", share);
    EXPECT_THAT(saved.verified().faults, IsEmpty());
    EXPECT_THROW((void)verify_state(saved.files, runs + "/step-00000001"), FileError);
}

TEST(VerifyState, ListsAllFaultsOfOneState) {
    const Saved saved;
    saved.bytes("share-00001.h5").back() ^= std::byte{1};
    saved.bytes("share-00002.h5")[3] ^= std::byte{1};
    saved.files->remove_all(saved.path + "/share-00000.h5");
    saved.files->put(saved.path + "/x", {});
    EXPECT_THAT(saved.verified().faults,
                ElementsAre(is_fault("share-00000.h5", "file", "is missing"),
                            is_fault("share-00001.h5", "block.0/filter#1 second_moment", ""),
                            is_fault("share-00002.h5", "header", ""), is_fault("x", "file", "")));
    saved.bytes(std::string{index_name})[600] ^= std::byte{1};
    EXPECT_THAT(saved.verified().faults,
                ElementsAre(is_fault("index.h5", "structure", ""),
                            is_fault("share-00002.h5", "header", ""), is_fault("x", "file", "")));
}

/// Opens the share of writer 1 by way of the state.
std::string message_of_reading(const Saved& saved) {
    StateReader reader{saved.files, saved.path};
    const StoredChunk chunk = chunks_of_writer(saved.table, 1, 3).front();
    std::vector<std::byte> bytes(static_cast<std::size_t>(saved.table.bytes_of(chunk)));
    try {
        reader.read(chunk, Value::parameter, bytes);
        return "";
    } catch (const StateError& error) {
        EXPECT_EQ(error.path, saved.path + "/share-00001.h5");
        return error.place + ": " + error.reason;
    }
}

TEST(State, NoticesSharesOfOthers) {
    const std::string name = "share-00001.h5";
    const auto with = [&](const MemoryFiles::Bytes& bytes, const std::string& reason) {
        const Saved saved;
        saved.bytes(name) = bytes;
        EXPECT_THAT(message_of_reading(saved), HasSubstr("header: " + reason));
        EXPECT_THAT(saved.verified().faults, ::testing::Contains(is_fault(name, "header", reason)));
    };
    EXPECT_EQ(message_of_reading(Saved{}), "");
    with(Saved{400}.bytes(name), "is of step 400, the state of step 500");
    with(Saved{}.bytes("share-00002.h5"), "is the share of writer 2");
    with(Saved{500, 2}.bytes(name), "is not the one that the index means");

    // Of another run: the same step, writer, chunks and length, other values.
    const Saved saved;
    const SampleValues others{saved.table, 123};
    MemoryFiles files;
    write_share(files, name, saved.table, 500, 1,
                others.chunks(chunks_of_writer(saved.table, 1, 3)));
    EXPECT_EQ(files.content(name).size(), saved.bytes(name).size());
    with(files.content(name), "is not the one that the index means");

    saved.files->remove_all(saved.path + "/" + name);
    EXPECT_EQ(message_of_reading(saved), "file: is missing");
}

TEST(State, OfVersion1IsStillRead) {
    const auto files = make_file_system();
    const std::string path = std::string{RHIZOME_TESTS} + "/golden/state_v1/step-00000042";
    const Verified verified = verify_state(files, path);
    EXPECT_THAT(verified.faults, IsEmpty());
    EXPECT_EQ(verified.weights, "a90d9385ea185061a07f71b591a34e5e");
    const StateReader reader{files, path};
    EXPECT_EQ(reader.digest(), "cc6e006a10a43608160ffdaaf1212f16");
    EXPECT_EQ(reader.index().facts, sample_facts(42));
    EXPECT_EQ(reader.index().table, sample_table());
    EXPECT_EQ(verified.weights, weights_of(sample_table(), SampleValues{sample_table(), 42}));
}

}  // namespace
}  // namespace rhizome::state
