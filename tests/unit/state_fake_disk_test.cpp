#include "state/fake_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
}

std::string text_of(const FakeDisk& disk, const std::string& path) {
    const auto bytes = disk.content(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Call>
std::error_code code_of(const Call& call) {
    try {
        call();
    } catch (const FileError& error) {
        return error.code();
    }
    return {};
}

TEST(FakeDisk, FailsTheOperationThatItIsToldToAndNoOther) {
    FakeDisk disk;
    disk.fail_operation(2, std::errc::io_error);
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("x"));
    EXPECT_FALSE(disk.fired());
    EXPECT_EQ(code_of([&] { file->sync(); }), std::errc::io_error);
    EXPECT_TRUE(disk.fired());
    file->sync();
    EXPECT_EQ(disk.operations(), 4);
    EXPECT_EQ(text_of(disk, "a"), "x");
}

TEST(FakeDisk, FailsAnOperationByItsNumberAmongItsKind) {
    FakeDisk disk;
    disk.fail_operation(FileOperation::sync, 1, std::errc::not_enough_memory);
    const auto a = disk.create("a");
    a->sync();
    const auto b = disk.create("b");
    EXPECT_EQ(b->bytes(), 0);
    EXPECT_FALSE(disk.fired());
    EXPECT_EQ(code_of([&] { b->sync(); }), std::errc::not_enough_memory);
    EXPECT_TRUE(disk.fired());
    b->sync();
    EXPECT_EQ(disk.operations(FileOperation::sync), 3);
    EXPECT_EQ(disk.operations(FileOperation::create), 2);
    EXPECT_EQ(disk.operations(FileOperation::rename), 0);
    EXPECT_EQ(disk.operations(), 6);
}

TEST(FakeDisk, CountsEveryCall) {
    FakeDisk disk;
    disk.make_folder("f");
    const auto file = disk.create("f/a");
    file->write_at(0, bytes_of("x"));
    file->sync();
    std::byte read{};
    disk.open("f/a")->read_at(0, {&read, 1});
    EXPECT_EQ(file->bytes(), 1);
    EXPECT_EQ(disk.kind_of("f/a"), EntryKind::file);
    EXPECT_EQ(disk.list("f").size(), 1U);
    disk.rename("f/a", "f/b");
    disk.sync_folder("f");
    disk.remove_all("f");
    for (std::size_t kind = 0; kind < file_operations; ++kind) {
        EXPECT_EQ(disk.operations(static_cast<FileOperation>(kind)), 1) << kind;
    }
    EXPECT_EQ(disk.operations(), 12);
    EXPECT_FALSE(disk.fired());
}

TEST(FakeDisk, HasDoneHalfOfAWriteThatFails) {
    FakeDisk disk;
    const auto file = disk.create("a");
    disk.fail_operation(1, std::errc::io_error);
    EXPECT_EQ(code_of([&] { file->write_at(1, bytes_of("1234")); }), std::errc::io_error);
    EXPECT_EQ(text_of(disk, "a"), (std::string{"\0"
                                               "12",
                                               3}));
    EXPECT_EQ(disk.bytes_used(), 3);
}

TEST(FakeDisk, LeavesAPartOfAFolderWhoseRemovalFails) {
    FakeDisk disk;
    for (const char* path : {"f/a", "f/b", "f/c", "g"}) disk.set_content(path, bytes_of("x"));
    disk.stop_at(0);
    EXPECT_THROW(disk.remove_all("f"), FileError);
    EXPECT_THROW(disk.remove_all("f"), FileError);  // nobody there any more
    EXPECT_THAT(disk.files(), ElementsAre("f/b", "f/c", "g"));
    EXPECT_EQ(disk.after_kill()->bytes_used(), 3);
}

TEST(FakeDisk, IsOnlyReadOnceItIsReadOnly) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("x"));
    disk.read_only_from(3);
    file->sync();
    EXPECT_EQ(file->bytes(), 1);
    EXPECT_EQ(disk.kind_of("a"), EntryKind::file);
    EXPECT_EQ(disk.open("a")->bytes(), 1);
    EXPECT_FALSE(disk.fired());
    const auto refused = std::errc::read_only_file_system;
    EXPECT_EQ(code_of([&] { file->write_at(0, bytes_of("yz")); }), refused);
    EXPECT_TRUE(disk.fired());
    EXPECT_EQ(code_of([&] { file->sync(); }), refused);
    EXPECT_EQ(code_of([&] { static_cast<void>(disk.create("b")); }), refused);
    EXPECT_EQ(code_of([&] { disk.rename("a", "b"); }), refused);
    EXPECT_EQ(code_of([&] { disk.make_folder("f"); }), refused);
    EXPECT_EQ(code_of([&] { disk.sync_folder(""); }), refused);
    EXPECT_EQ(code_of([&] { disk.remove_all("a"); }), refused);
    EXPECT_THAT(disk.files(), ElementsAre("a"));
    EXPECT_EQ(text_of(disk, "a"), "x");
}

TEST(FakeDisk, DoesNothingAfterItWasStopped) {
    FakeDisk disk;
    disk.stop_at(1);
    static_cast<void>(disk.create("a"));
    EXPECT_THROW(static_cast<void>(disk.create("b")), FileError);
    EXPECT_THROW(static_cast<void>(disk.list("")), FileError);
    EXPECT_TRUE(disk.fired());
    EXPECT_THAT(disk.files(), ElementsAre("a"));
    EXPECT_THAT(disk.after_kill()->list(""), ElementsAre(Entry{"a", EntryKind::file}));
}

TEST(FakeDisk, WritesWhatFits) {
    FakeDisk disk;
    disk.set_capacity(10);
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("123456"));
    const auto other = disk.create("b");
    EXPECT_EQ(code_of([&] { other->write_at(0, bytes_of("1234567")); }),
              std::errc::no_space_on_device);
    EXPECT_TRUE(disk.fired());
    EXPECT_EQ(text_of(disk, "b"), "1234");
    file->write_at(2, bytes_of("xy"));  // over what is there
    disk.remove_all("b");
    EXPECT_EQ(disk.bytes_used(), 6);
    file->write_at(6, bytes_of("7890"));
    EXPECT_EQ(text_of(disk, "a"), "12xy567890");
}

TEST(FakeDisk, LetsBytesBeOverwrittenThoughThereIsNoRoom) {
    FakeDisk disk;
    disk.set_content("f/a", bytes_of("123456"));
    disk.set_capacity(4);
    disk.rename("f/a", "f/b");
    const auto file = disk.create("f/a");
    EXPECT_EQ(code_of([&] { file->write_at(0, bytes_of("x")); }), std::errc::no_space_on_device);
    EXPECT_EQ(text_of(disk, "f/a"), "");
    disk.set_capacity(10);
    file->write_at(0, bytes_of("1234"));
    disk.set_capacity(4);
    file->write_at(0, bytes_of("abcd"));
    EXPECT_EQ(code_of([&] { file->write_at(2, bytes_of("CDE")); }), std::errc::no_space_on_device);
    EXPECT_EQ(text_of(disk, "f/a"), "abCD");
}

TEST(FakeDisk, LetsATestDamageAFile) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("abc"));
    auto bytes = disk.content("a");
    bytes[1] ^= std::byte{1};
    bytes.resize(2);
    disk.set_content("a", bytes);
    EXPECT_EQ(file->bytes(), 2);
    EXPECT_EQ(text_of(disk, "a"), "ac");
    EXPECT_EQ(disk.bytes_used(), 2);
    EXPECT_EQ(disk.operations(), 3);
}

TEST(FakeDisk, IsSharedByThreads) {
    constexpr int threads = 4;
    constexpr int rounds = 50;
    FakeDisk disk;
    const auto work = [&](int self) {
        const std::string name = std::to_string(self);
        const auto file = disk.create(name + ".part");
        for (int i = 0; i < rounds; ++i) file->write_at(i, bytes_of(name));
        file->sync();
        disk.rename(name + ".part", name);
        disk.sync_folder("");
    };
    std::vector<std::thread> running;
    running.reserve(threads);
    for (int i = 0; i < threads; ++i) running.emplace_back(work, i);
    for (std::thread& each : running) each.join();
    EXPECT_EQ(disk.operations(), threads * (rounds + 4));
    EXPECT_EQ(disk.bytes_used(), threads * rounds);
    const auto left = disk.after_power_loss(0);
    EXPECT_THAT(left->files(), ElementsAre("0", "1", "2", "3"));
    for (int i = 0; i < threads; ++i) {
        const std::string name = std::to_string(i);
        EXPECT_EQ(text_of(*left, name), std::string(rounds, name.front()));
    }
}

/// All outcomes that chance gives.
template <class Describe>
std::set<std::string> outcomes(const FakeDisk& disk, const Describe& describe) {
    std::set<std::string> found;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        found.insert(describe(*disk.after_power_loss(seed)));
    }
    return found;
}

std::string names_of(FakeDisk& disk) {
    std::string names;
    for (const std::string& path : disk.files()) {
        names += path + "=" + text_of(disk, path) + " ";
    }
    return names;
}

TEST(FakeDisk, KeepsWhatWasSyncedWhenPowerIsLost) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("whole"));
    file->sync();
    disk.sync_folder("");
    EXPECT_THAT(outcomes(disk, names_of), ElementsAre("a=whole "));
}

TEST(FakeDisk, MayLoseTheNameOfAFileWhoseFolderWasNotSynced) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("whole"));
    file->sync();
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "a=whole "));
}

TEST(FakeDisk, KeepsAnyPartOfWritesThatWereNotSynced) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("...."));
    file->sync();
    disk.sync_folder("");
    file->write_at(0, bytes_of("AB"));
    file->write_at(2, bytes_of("CD"));
    EXPECT_THAT(outcomes(disk, names_of),
                UnorderedElementsAre("a=.... ", "a=A... ", "a=AB.. ", "a=..C. ", "a=A.C. ",
                                     "a=ABC. ", "a=..CD ", "a=A.CD ", "a=ABCD "));
}

TEST(FakeDisk, RenamesWhollyOrNotAtAll) {
    FakeDisk disk;
    disk.make_folder("f");
    disk.create("f/a")->sync();
    disk.sync_folder("f");
    disk.sync_folder("");
    disk.rename("f/a", "f/b");
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("f/a= ", "f/b= "));
    disk.sync_folder("f");
    EXPECT_THAT(outcomes(disk, names_of), ElementsAre("f/b= "));
}

TEST(FakeDisk, MayKeepALaterChangeOfAFolderAndLoseAnEarlierOne) {
    FakeDisk disk;
    static_cast<void>(disk.create("a"));
    static_cast<void>(disk.create("b"));
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "a= ", "b= ", "a= b= "));
    disk.sync_folder("");
    disk.remove_all("a");
    disk.remove_all("b");
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "a= ", "b= ", "a= b= "));
}

TEST(FakeDisk, KeepsChangesOfOneNameInTheirOrder) {
    FakeDisk disk;
    disk.set_content("a", bytes_of("old"));
    disk.rename("a", "b");
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("new"));
    file->sync();
    // Never the new file in the place of an old one that is gone.
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("a=old ", "b=old ", "a=new b=old "));
    disk.remove_all("b");
    EXPECT_THAT(outcomes(disk, names_of),
                UnorderedElementsAre("a=old ", "b=old ", "a=new b=old ", "", "a=new "));
}

TEST(FakeDisk, MayHaveGrownAFileWithoutItsBytes) {
    FakeDisk disk;
    const auto file = disk.create("a");
    disk.sync_folder("");
    file->write_at(0, bytes_of("AB"));
    const auto text = [](const std::string& bytes) { return "a=" + bytes + " "; };
    EXPECT_THAT(
        outcomes(disk, names_of),
        UnorderedElementsAre(text(""), text("A"), text("AB"), text({"A\0", 2}), text({"\0\0", 2})));
}

TEST(FakeDisk, MayHaveRemovedAFolderInPart) {
    FakeDisk disk;
    disk.set_content("f/a", {});
    disk.set_content("f/b", {});
    disk.remove_all("f");
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "f/a= ", "f/b= ", "f/a= f/b= "));
    disk.sync_folder("");
    EXPECT_THAT(outcomes(disk, names_of), ElementsAre(""));
}

TEST(FakeDisk, MayLoseAFolderWhoseEntryWasNotSynced) {
    FakeDisk disk;
    disk.make_folder("f/g");
    static_cast<void>(disk.create("f/g/a"));
    disk.sync_folder("f/g");
    disk.sync_folder("f");
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "f/g/a= "));
    disk.sync_folder("");
    EXPECT_THAT(outcomes(disk, names_of), ElementsAre("f/g/a= "));
}

TEST(FakeDisk, DrawsTheSameFromTheSameSeed) {
    FakeDisk disk;
    for (char name = 'a'; name <= 'z'; ++name) {
        disk.create({name})->write_at(0, bytes_of("0123456789"));
    }
    const auto describe = [&](std::uint64_t seed) {
        return names_of(*disk.after_power_loss(seed));
    };
    for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(describe(seed), describe(seed));
    EXPECT_GT(outcomes(disk, names_of).size(), 100U);
    // However much there is to lose: nothing of it, and all names.
    EXPECT_THAT(outcomes(disk, [](FakeDisk& left) { return std::to_string(left.files().size()); }),
                IsSupersetOf({"0", "26"}));
}

TEST(FakeDisk, LosesNothingMoreWhenPowerIsLostAgain) {
    FakeDisk disk;
    disk.create("a")->write_at(0, bytes_of("0123456789"));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto left = disk.after_power_loss(seed);
        EXPECT_EQ(names_of(*left->after_power_loss(seed + 1)), names_of(*left));
        EXPECT_EQ(left->operations(), 0);
        EXPECT_FALSE(left->fired());
    }
}

TEST(FakeDisk, IsTheSameAfterAKillAndHasNoFaultsThen) {
    FakeDisk disk;
    const auto file = disk.create("a");
    file->write_at(0, bytes_of("x"));
    disk.stop_at(0);
    const auto left = disk.after_kill();
    EXPECT_EQ(text_of(*left, "a"), "x");
    EXPECT_EQ(left->bytes_used(), 1);
    left->remove_all("a");
    EXPECT_THAT(left->files(), IsEmpty());
    EXPECT_EQ(text_of(disk, "a"), "x");
}

}  // namespace
}  // namespace rhizome::state
