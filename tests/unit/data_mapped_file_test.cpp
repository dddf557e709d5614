#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "data/mapped_file.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::data {
namespace {

using ::testing::ThrowsMessage;

std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::ptrdiff_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

TEST(MappedFile, ShowsTheWholeFile) {
    const TempFolder folder;
    std::string content(10'000, 'x');  // some pages and a part of one
    content += "end";
    EXPECT_EQ(text_of(MappedFile{folder.write("a.txt", content)}), content);
}

TEST(MappedFile, HandsItsMappingOverWhenMoved) {
    const TempFolder folder;
    MappedFile first{folder.write("a.txt", "first")};
    MappedFile second{folder.write("b.txt", "second")};
    const MappedFile moved{std::move(first)};
    EXPECT_EQ(text_of(moved), "first");
    first = std::move(second);
    EXPECT_EQ(text_of(first), "second");
    EXPECT_TRUE(second.bytes().empty());  // NOLINT(bugprone-use-after-move): that it is empty
}

TEST(MappedFile, NamesAMissingFile) {
    const TempFolder folder;
    EXPECT_THAT([&] { MappedFile{folder.path("none.txt")}; },
                ThrowsMessage<DataError>("data file " + folder.path("none.txt") +
                                         " cannot be opened (No such file or directory), check "
                                         "the path"));
}

TEST(MappedFile, RefusesAFolder) {
    const TempFolder folder;
    EXPECT_THAT([&] { MappedFile{folder.path()}; },
                ThrowsMessage<DataError>("data file " + folder.path() +
                                         " cannot be read (it is a folder), name a file, or a "
                                         "pattern for several"));
}

TEST(MappedFile, RefusesAnEmptyFile) {
    const TempFolder folder;
    const std::string path = folder.write("empty.txt", "");
    EXPECT_THAT([&] { MappedFile{path}; },
                ThrowsMessage<DataError>("data file " + path +
                                         " cannot be used (it is empty), name one with content"));
}

TEST(MappedFile, RefusesANamedPipeWithoutWaitingForAWriter) {
    const TempFolder folder;
    const std::string path = folder.path("pipe");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT([&] { MappedFile{path}; },
                ThrowsMessage<DataError>("data file " + path +
                                         " cannot be read (it is no regular file), copy its "
                                         "content into one"));
}

TEST(MappedFile, NamesAFileItMayNotRead) {
    const TempFolder folder;
    const std::string path = folder.write("secret.txt", "text");
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    const uid_t user = ::geteuid();
    constexpr uid_t nobody = 65534;
    if (user == 0 && ::seteuid(nobody) != 0) GTEST_SKIP() << "root cannot become another user here";
    EXPECT_THAT([&] { MappedFile{path}; },
                ThrowsMessage<DataError>("data file " + path +
                                         " cannot be opened (Permission denied), make it readable "
                                         "for this user"));
    ASSERT_EQ(::seteuid(user), 0);
}

TEST(MappedFile, KeepsNoDescriptorOpen) {
    const TempFolder folder;
    const std::string good = folder.write("a.txt", "text");
    const std::string empty = folder.write("empty.txt", "");
    const std::ptrdiff_t before = open_descriptors();
    const MappedFile file{good};
    EXPECT_THROW(MappedFile{empty}, DataError);
    EXPECT_THROW(MappedFile{folder.path()}, DataError);
    EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace rhizome::data
