#include "state/fake_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
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

/// All outcomes that chance gives.
template <class Describe>
std::set<std::string> outcomes(const FakeDisk& disk, const Describe& describe) {
    std::set<std::string> found;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
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

TEST(FakeDisk, ChangesOfAFolderAreKeptInTheirOrder) {
    FakeDisk disk;
    static_cast<void>(disk.create("a"));
    static_cast<void>(disk.create("b"));
    disk.remove_all("a");
    EXPECT_THAT(outcomes(disk, names_of), UnorderedElementsAre("", "a= ", "a= b= ", "b= "));
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
