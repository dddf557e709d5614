// What both file systems promise: this host's, and the one in memory.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.hpp"
#include "state/fake_disk.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::state {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
}

std::string read(const File& file, std::int64_t offset, std::size_t count) {
    std::string text(count, ' ');
    file.read_at(offset, std::as_writable_bytes(std::span{text}));
    return text;
}

enum class Which : std::uint8_t { host, fake };

class Files : public testing::TestWithParam<Which> {
  protected:
    void SetUp() override {
        if (GetParam() == Which::host) {
            files_ = make_file_system();
            home_ = folder_.path() + "/home";
        } else {
            files_ = std::make_shared<FakeDisk>();
        }
        files_->make_folder(home_);
    }

    template <class Call>
    std::error_code code_of(const Call& call) {
        try {
            call();
        } catch (const FileError& error) {
            EXPECT_THAT(error.what(), HasSubstr(error.path() + " (" + error.reason() + ")"));
            return error.code();
        }
        return {};
    }

    data::TempFolder folder_;
    std::shared_ptr<FileSystem> files_;
    std::string home_ = "home";
};

INSTANTIATE_TEST_SUITE_P(Both, Files, testing::Values(Which::host, Which::fake),
                         [](const auto& each) {
                             return each.param == Which::host ? "Host" : "Fake";
                         });

TEST_P(Files, WriteAtAnyPlaceAndReadBack) {
    const auto file = files_->create(home_ + "/a");
    file->write_at(0, bytes_of("abc"));
    file->write_at(6, bytes_of("xyz"));
    file->write_at(1, bytes_of("B"));
    file->sync();
    EXPECT_EQ(file->bytes(), 9);
    const auto again = files_->open(home_ + "/a");
    EXPECT_EQ(again->path(), home_ + "/a");
    EXPECT_EQ(again->bytes(), 9);
    EXPECT_EQ(read(*again, 0, 9), (std::string{"aBc\0\0\0xyz", 9}));
    EXPECT_EQ(read(*again, 9, 0), "");
}

TEST_P(Files, SayWhereAFileEnds) {
    const auto file = files_->create(home_ + "/a");
    file->write_at(0, bytes_of("abc"));
    for (const std::int64_t offset : {1, 3, 10}) {
        try {
            static_cast<void>(read(*file, offset, 3));
            ADD_FAILURE() << offset;
        } catch (const FileError& error) {
            EXPECT_THAT(error.what(), HasSubstr("home/a (ends at byte 3)"));
        }
    }
    EXPECT_EQ(read(*file, 10, 0), "");
}

TEST_P(Files, GrowOnlyByBytes) {
    const auto file = files_->create(home_ + "/a");
    file->write_at(10, {});
    EXPECT_EQ(file->bytes(), 0);
}

TEST_P(Files, StayOpenUnderAnotherNameAndWithoutOne) {
    const auto file = files_->create(home_ + "/a");
    file->write_at(0, bytes_of("abc"));
    const auto reader = files_->open(home_ + "/a");
    files_->rename(home_ + "/a", home_ + "/b");
    file->write_at(3, bytes_of("d"));
    EXPECT_EQ(read(*files_->open(home_ + "/b"), 0, 4), "abcd");
    files_->remove_all(home_ + "/b");
    file->sync();
    EXPECT_EQ(read(*reader, 0, 4), "abcd");
    EXPECT_EQ(files_->kind_of(home_ + "/b"), std::nullopt);
}

TEST_P(Files, RefuseANameThatIsTaken) {
    static_cast<void>(files_->create(home_ + "/a"));
    files_->make_folder(home_ + "/b");
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->create(home_ + "/a")); }),
              std::errc::file_exists);
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/a", home_ + "/b"); }), std::errc::file_exists);
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/b", home_ + "/a"); }), std::errc::file_exists);
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->create(home_ + "/b")); }),
              std::errc::file_exists);
    // An empty folder, too, which rename(2) would replace; and a name's own.
    files_->make_folder(home_ + "/c");
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/b", home_ + "/c"); }), std::errc::file_exists);
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/a", home_ + "/a"); }), std::errc::file_exists);
}

TEST_P(Files, OpenOnlyWhatIsThereAndForReading) {
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->open(home_ + "/none")); }),
              std::errc::no_such_file_or_directory);
    EXPECT_THROW(static_cast<void>(files_->open(home_)), FileError);
    static_cast<void>(files_->create(home_ + "/a"));
    EXPECT_EQ(code_of([&] { files_->open(home_ + "/a")->write_at(0, bytes_of("x")); }),
              std::errc::bad_file_descriptor);
}

TEST_P(Files, ListByName) {
    static_cast<void>(files_->create(home_ + "/b"));
    files_->make_folder(home_ + "/c/d");
    static_cast<void>(files_->create(home_ + "/.a"));
    EXPECT_THAT(files_->list(home_),
                ElementsAre(Entry{".a", EntryKind::file}, Entry{"b", EntryKind::file},
                            Entry{"c", EntryKind::folder}));
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->list(home_ + "/none")); }),
              std::errc::no_such_file_or_directory);
}

TEST_P(Files, TellWhatIsMissingFromWhatIsNoFolder) {
    static_cast<void>(files_->create(home_ + "/a"));
    const auto missing = std::errc::no_such_file_or_directory;
    const auto no_folder = std::errc::not_a_directory;
    EXPECT_EQ(files_->kind_of(home_), EntryKind::folder);
    EXPECT_EQ(files_->kind_of(home_ + "/none/x"), std::nullopt);
    EXPECT_EQ(files_->kind_of(home_ + "/a/x"), std::nullopt);
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->create(home_ + "/none/x")); }), missing);
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->create(home_ + "/a/x")); }), no_folder);
    EXPECT_EQ(code_of([&] { static_cast<void>(files_->list(home_ + "/a")); }), no_folder);
    EXPECT_EQ(code_of([&] { files_->sync_folder(home_ + "/none"); }), missing);
    EXPECT_EQ(code_of([&] { files_->sync_folder(home_ + "/a"); }), no_folder);
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/none", home_ + "/b"); }), missing);
    EXPECT_EQ(code_of([&] { files_->rename(home_ + "/a", home_ + "/none/a"); }), missing);
}

TEST_P(Files, TakeAPathInAnyOfItsForms) {
    files_->make_folder(home_ + "//f/");
    files_->make_folder(home_ + "/f");
    static_cast<void>(files_->create(home_ + "/./f//a"));
    EXPECT_THAT(files_->list(home_ + "/f/"), ElementsAre(Entry{"a", EntryKind::file}));
    EXPECT_THAT(files_->list(home_), ElementsAre(Entry{"f", EntryKind::folder}));
}

TEST_P(Files, RenameAFolderWithAllInIt) {
    files_->make_folder(home_ + "/a");
    static_cast<void>(files_->create(home_ + "/a/b"));
    files_->rename(home_ + "/a", home_ + "/c");
    files_->sync_folder(home_);
    EXPECT_EQ(files_->kind_of(home_ + "/a"), std::nullopt);
    EXPECT_EQ(files_->kind_of(home_ + "/c/b"), EntryKind::file);
}

TEST_P(Files, RemoveAFolderWithAllInItAndWhatIsNotThere) {
    files_->make_folder(home_ + "/a/b");
    static_cast<void>(files_->create(home_ + "/a/b/c"));
    files_->remove_all(home_ + "/a");
    files_->remove_all(home_ + "/a");
    EXPECT_THAT(files_->list(home_), IsEmpty());
}

TEST_P(Files, MakeNoFolderWhereAFileIs) {
    static_cast<void>(files_->create(home_ + "/a"));
    EXPECT_THROW(files_->make_folder(home_ + "/a/b"), FileError);
}

TEST(HostFiles, AreOpenedWithoutWaitingForAWriter) {
    const data::TempFolder folder;
    const std::string pipe = folder.path() + "/pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const auto files = make_file_system();
    EXPECT_EQ(files->kind_of(pipe), EntryKind::other);
    EXPECT_THROW(static_cast<void>(files->open(pipe)), FileError);
}

TEST(HostFiles, ShowALinkAsWhatItLeadsToAndRemoveItAlone) {
    const data::TempFolder folder;
    const auto files = make_file_system();
    files->make_folder(folder.path("target"));
    static_cast<void>(files->create(folder.path("target/a")));
    std::filesystem::create_directory_symlink("target", folder.path("link"));
    EXPECT_EQ(files->kind_of(folder.path("link")), EntryKind::folder);
    files->remove_all(folder.path("link"));
    EXPECT_EQ(files->kind_of(folder.path("link")), std::nullopt);
    EXPECT_EQ(files->kind_of(folder.path("target/a")), EntryKind::file);
}

TEST(HostFiles, HaveModesThatFollowUmask) {
    const data::TempFolder folder;
    const mode_t before = ::umask(0027);
    static_cast<void>(make_file_system()->create(folder.path() + "/a"));
    make_file_system()->make_folder(folder.path() + "/b");
    ::umask(before);
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(folder.path("a")).permissions(), perms{0640});
    EXPECT_EQ(std::filesystem::status(folder.path("b")).permissions(), perms{0750});
}

}  // namespace
}  // namespace rhizome::state
