#include "state/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <numeric>

#include "support/memory_files.hpp"

namespace rhizome::state {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::MemoryFiles;

std::string little_endian(std::uint64_t number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// A file with this header and so many bytes of data, which count up.
std::string file_of(const std::string& header, std::size_t data_bytes) {
    std::string data(data_bytes, '\0');
    std::iota(data.begin(), data.end(), '\0');
    return little_endian(header.size()) + header + data;
}

/// Why a file is refused; fails if it is not, or if the message has another form.
std::string refusal(const std::string& content) {
    MemoryFiles files;
    files.put("m", content);
    try {
        const SafetensorsReader reader{files, "m"};
    } catch (const SafetensorsError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("safetensors file m (" + error.reason + "), "), 0U) << message;
        EXPECT_EQ(error.path, "m");
        EXPECT_EQ(error.code(), ExitCode::bad_data);
        return error.reason;
    }
    ADD_FAILURE() << "not refused";
    return {};
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
    return refusal(file_of(header, data_bytes));
}

constexpr const char* one_tensor = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(SafetensorsReader, FindsTensorsAndMetadata) {
    MemoryFiles files;
    // Not in the order of the data, blanks where JSON has them, an escaped name.
    files.put("m", file_of(R"({"__metadata__": {"format":"pt", "empty":""},
        "b\u0041":{"data_offsets":[8,24],"shape":[2, 1],"dtype":"F64"},
        "half":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},
        "scalar":{"dtype":"F32","shape":[],"data_offsets":[4,8]},
        "none":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},
        "first":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )",
                           30));
    const SafetensorsReader reader{files, "m"};
    EXPECT_EQ(reader.metadata(),
              (std::map<std::string, std::string>{{"format", "pt"}, {"empty", ""}}));
    std::vector<std::string> names;
    for (const SafetensorsTensor& tensor : reader.tensors()) names.push_back(tensor.name);
    EXPECT_THAT(names, ElementsAre("first", "none", "scalar", "bA", "half"));
    const SafetensorsTensor* const b = reader.find("bA");
    ASSERT_NE(b, nullptr);
    EXPECT_THAT(b->shape, ElementsAre(2, 1));
    EXPECT_EQ(reader.dtype_of(*b), DType::f64);
    EXPECT_EQ(b->bytes, 16);
    EXPECT_EQ(reader.find("c"), nullptr);
    EXPECT_EQ(reader.find("__metadata__"), nullptr);
}

TEST(SafetensorsReader, ReadsATensorAndPartsOfIt) {
    MemoryFiles files;
    const std::string header = R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                               R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}})";
    files.put("m", file_of(header, 24));
    const SafetensorsReader reader{files, "m"};
    const SafetensorsTensor& b = *reader.find("b");
    std::vector<std::byte> whole(16);
    reader.read(b, whole);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(whole[i], std::byte(8 + i));
    std::vector<std::byte> part(8);
    reader.read(b, 1, part);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(part[i], std::byte(12 + i));
    reader.read(b, 4, {});
    EXPECT_DEATH(reader.read(b, 3, part), "broken promise");
    EXPECT_DEATH(reader.read(b, -1, part), "broken promise");
    EXPECT_DEATH(reader.read(b, part), "broken promise");
}

TEST(SafetensorsReader, TakesAFileWithoutTensors) {
    MemoryFiles files;
    files.put("m", file_of("{}", 0));
    EXPECT_TRUE((SafetensorsReader{files, "m"}.tensors().empty()));
}

TEST(SafetensorsReader, KnowsTypesThatItDoesNotRead) {
    struct Type {
        std::string name;
        int bits;
    };
    for (const Type& type : {Type{"F16", 16}, Type{"BF16", 16}, Type{"BOOL", 8}, Type{"I32", 32},
                             Type{"U64", 64}, Type{"F8_E4M3", 8}, Type{"F4", 4}, Type{"C64", 64}}) {
        MemoryFiles files;
        const std::string bytes = std::to_string(type.bits / 4);
        files.put("m", file_of(R"({"x":{"dtype":")" + type.name +
                                   R"(","shape":[2],"data_offsets":[0,)" + bytes + "]}}",
                               static_cast<std::size_t>(type.bits) / 4));
        const SafetensorsReader reader{files, "m"};
        std::vector<std::byte> to(static_cast<std::size_t>(type.bits) / 4);
        try {
            reader.read(reader.tensors()[0], to);
            ADD_FAILURE() << type.name << " was read";
        } catch (const SafetensorsError& error) {
            EXPECT_STREQ(error.what(), ("safetensors file m (tensor x has dtype " + type.name +
                                        ", which is not read here), convert it to F32 first")
                                           .c_str());
        }
    }
}

TEST(SafetensorsReader, RefusesAFileTooShortForALength) {
    EXPECT_EQ(refusal(""), "is only 0 bytes long");
    EXPECT_EQ(refusal("\x02"), "is only 1 byte long");
    EXPECT_EQ(refusal(std::string(7, '\0')), "is only 7 bytes long");
}

TEST(SafetensorsReader, RefusesAHeaderLongerThanTheFileOrAbsurd) {
    EXPECT_EQ(refusal(little_endian(3) + "{}"), "header of 3 bytes in a file of 10");
    EXPECT_EQ(refusal(little_endian(100'000'000) + "{}"),
              "header of 100000000 bytes in a file of 10");
    EXPECT_EQ(refusal(little_endian(100'000'001) + "{}"),
              "header of 100000001 bytes, of at most 100000000");
    EXPECT_EQ(refusal(little_endian(UINT64_MAX) + "{}"),
              "header of 18446744073709551615 bytes, of at most 100000000");
}

TEST(SafetensorsReader, RefusesWhatIsNoJsonObject) {
    for (const char* const header : {"", " {}", "[]", "1", "null", "\"a\"", "\xEF\xBB\xBF{}"}) {
        EXPECT_EQ(refusal(header, 0), "header is no JSON object") << header;
    }
    EXPECT_EQ(refusal(std::string{"{}\0 ", 4}, 0), "header is no JSON object");
    for (const char* const header : {"{", "{}}", "{} x", "{\"a\"}", "{,}", "{'a':1}", "{}//",
                                     "{\"a\xFF\":{}}", "{\"a\n\":{}}"}) {
        EXPECT_THAT(refusal(header, 0), HasSubstr("header is no JSON from its byte ")) << header;
    }
}

TEST(SafetensorsReader, RefusesWhatIsNotWhereItBelongs) {
    EXPECT_EQ(refusal(R"({"a":1})", 0), "entry a is or holds a number");
    EXPECT_EQ(refusal(R"({"a":[]})", 0), "entry a is or holds a list");
    EXPECT_EQ(refusal(R"({"a":"F32"})", 0), "entry a is or holds a text");
    EXPECT_EQ(refusal(R"({"a":{"dtype":1}})", 0), "dtype of tensor a is or holds a number");
    EXPECT_EQ(refusal(R"({"a":{"dtype":["F32"]}})", 0), "dtype of tensor a is or holds a list");
    EXPECT_EQ(refusal(R"({"a":{"shape":1}})", 0), "shape of tensor a is or holds a number");
    EXPECT_EQ(refusal(R"({"a":{"shape":{}}})", 0), "shape of tensor a is or holds an object");
    EXPECT_EQ(refusal(R"({"a":{"shape":[true]}})", 0),
              "shape of tensor a is or holds a truth value");
    EXPECT_EQ(refusal(R"({"a":{"shape":["2"]}})", 0), "shape of tensor a is or holds a text");
    EXPECT_EQ(refusal(R"({"a":{"shape":[-1]}})", 0),
              "shape of tensor a is or holds a negative number");
    for (const char* const number : {"2.0", "1e3", "9223372036854775808", "18446744073709551616"}) {
        EXPECT_EQ(refusal(std::string{R"({"a":{"shape":[)"} + number + "]}}", 0),
                  "shape of tensor a is or holds no whole number of 64 bits");
    }
}

TEST(SafetensorsReader, RefusesDeepNesting) {
    EXPECT_EQ(refusal(R"({"a":{"shape":[[2]]}})", 0), "shape of tensor a is or holds a list");
    std::string deep = R"({"a":)";
    for (int i = 0; i < 1'000'000; ++i) deep += R"({"dtype":)";
    EXPECT_EQ(refusal(deep, 0), "dtype of tensor a is or holds an object");
    EXPECT_EQ(refusal(R"({"a":)" + std::string(1'000'000, '['), 0), "entry a is or holds a list");
    std::string ones = "1";
    for (int i = 0; i < 64; ++i) ones += ",1";
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","data_offsets":[0,4],"shape":[)" + ones + "]}}", 4),
              "shape of tensor a has more than 64 numbers");
}

TEST(SafetensorsReader, RefusesWhatComesTwice) {
    const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    EXPECT_EQ(refusal("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}", 4), "name a twice");
    EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "name __metadata__ twice");
    EXPECT_EQ(refusal(R"({"__metadata__":{"k":"1","k":"1"}})", 0), "metadata k twice");
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","dtype":"F32"}})", 0), "tensor a has dtype twice");
}

TEST(SafetensorsReader, RefusesAnEntryThatLacksSomethingOrHasMore) {
    EXPECT_EQ(refusal(R"({"a":{}})", 0), "tensor a has no dtype");
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "tensor a has no shape");
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "tensor a has no data_offsets");
    EXPECT_EQ(refusal(R"({"a":{"strides":[1]}})", 4), "tensor a has an unknown key, strides");
}

TEST(SafetensorsReader, RefusesUnknownTypes) {
    for (const char* const type : {"F33", "f32", "", "F32 "}) {
        EXPECT_EQ(refusal(std::string{R"({"a":{"dtype":")"} + type +
                              R"(","shape":[1],"data_offsets":[0,4]}})",
                          4),
                  std::string{"tensor a has the unknown dtype "} + type);
    }
}

TEST(SafetensorsReader, RefusesMetadataThatAreNoText) {
    EXPECT_EQ(refusal(R"({"__metadata__":"x"})", 0), "entry __metadata__ is or holds a text");
    EXPECT_EQ(refusal(R"({"__metadata__":null})", 0), "entry __metadata__ is or holds null");
    EXPECT_EQ(refusal(R"({"__metadata__":{"k":1}})", 0), "metadata k is or holds a number");
    EXPECT_EQ(refusal(R"({"__metadata__":{"k":{}}})", 0), "metadata k is or holds an object");
    EXPECT_EQ(refusal(R"({"__metadata__":{"k":["x"]}})", 0), "metadata k is or holds a list");
}

TEST(SafetensorsReader, RefusesASizeThatIsNotTheShapes) {
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              "tensor a of dtype F32 and shape (2) has 4 bytes");
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,4]}})", 4),
              "tensor a of dtype F64 and shape () has 4 bytes");
    EXPECT_EQ(refusal(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1),
              "tensor a of dtype F4 and shape (3) has 1 bytes");
}

TEST(SafetensorsReader, RefusesShapesWhoseProductOverflows) {
    const std::string reason = " has more bytes than can be counted";
    // 2^64 bits, which would come out as 0; 2^32 times 2^32 elements.
    EXPECT_EQ(
        refusal(R"({"a":{"dtype":"F32","shape":[576460752303423488],"data_offsets":[0,0]}})", 0),
        "tensor a of shape (576460752303423488)" + reason);
    EXPECT_EQ(
        refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
        "tensor a of shape (4294967296, 4294967296)" + reason);
}

std::string two_tensors(const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}";
}

TEST(SafetensorsReader, RefusesOffsetsThatAreNoRange) {
    for (const char* const offsets : {"[]", "[8]", "[8,0]"}) {
        EXPECT_EQ(refusal(two_tensors("[0,8]", offsets), 16),
                  "data_offsets of tensor b are no beginning and end");
    }
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[0,8,16]"), 16),
              "data_offsets of tensor b has more than 2 numbers");
}

TEST(SafetensorsReader, RefusesTensorsThatDoNotFillTheData) {
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[4,12]"), 12), "tensors a and b overlap");
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[0,8]"), 8), "tensors a and b overlap");
    EXPECT_EQ(refusal(two_tensors("[12,20]", "[0,8]"), 20),
              "bytes 8 to 12 of its data belong to no tensor");
    EXPECT_EQ(refusal(two_tensors("[1,9]", "[9,17]"), 17),
              "bytes 0 to 1 of its data belong to no tensor");
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[8,16]"), 15), "tensor b ends at byte 16 of 15");
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[8,16]"), 17), "its last 1 byte belong to no tensor");
    EXPECT_EQ(refusal("{}", 3), "its last 3 bytes belong to no tensor");
    EXPECT_EQ(refusal(two_tensors("[0,8]", "[9223372036854775799,9223372036854775807]"), 16),
              "bytes 8 to 9223372036854775799 of its data belong to no tensor");
}

TEST(SafetensorsReader, RefusesATruncatedFileWhereverItEnds) {
    const std::string whole = file_of(one_tensor, 8);
    for (std::size_t size = 0; size < whole.size(); ++size) refusal(whole.substr(0, size));
}

TEST(SafetensorsReader, ShowsStrangeNamesWithoutTheirControlCharacters) {
    EXPECT_EQ(refusal(R"({"a\u001b[1m\n":{}})", 0), R"(tensor a\x1b[1m\x0a has no dtype)");
    EXPECT_EQ(refusal("{\"" + std::string(500, 'n') + "\":{}}", 0),
              "tensor " + std::string(100, 'n') + "... has no dtype");
}

TEST(SafetensorsReader, LeavesTroubleWithTheFileToTheFile) {
    MemoryFiles files;
    EXPECT_THROW((SafetensorsReader{files, "m"}), FileError);
}

const std::vector<SafetensorsSpec> two_specs{{"z", {2, 1}, DType::f32}, {"a", {}, DType::f64}};

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
}

/// With "zzzzZZZZ" in z and "aaaaAAAA" in a.
void write_two(FileSystem& files, Existing existing,
               const std::map<std::string, std::string>& metadata = {}) {
    SafetensorsWriter writer{files, "f/m", two_specs, metadata, existing};
    writer.write(1, bytes_of("aaaaAAAA"));
    writer.write(0, bytes_of("zzzzZZZZ"));
    writer.commit();
}

TEST(SafetensorsWriter, WritesTheFormatToTheByte) {
    MemoryFiles files;
    write_two(files, Existing::keep, {{"format", "pt"}});
    const std::string header = R"({"__metadata__":{"format":"pt"},)"
                               R"("z":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                               R"("a":{"dtype":"F64","shape":[],"data_offsets":[8,16]}})";
    const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    EXPECT_EQ(files.get("f/m"), little_endian(padded.size()) + padded + "zzzzZZZZaaaaAAAA");
    EXPECT_THAT(files.names(), ElementsAre("f/m"));
    EXPECT_EQ(SafetensorsReader(files, "f/m").tensors()[0].offset % 8, 0);
}

TEST(SafetensorsWriter, KeepsEveryMetadataTextThatIsUtf8) {
    const std::map<std::string, std::string> metadata{
        {"", "a \"quote\" \\ \n\t"}, {"\xC3\xA9", std::string{"\0\x1B", 2}}, {"k", ""}};
    MemoryFiles files;
    write_two(files, Existing::keep, metadata);
    EXPECT_EQ(SafetensorsReader(files, "f/m").metadata(), metadata);
    write_two(files, Existing::replace, {{"k", "a\xFF"}});
    EXPECT_EQ(SafetensorsReader(files, "f/m").metadata().at("k"), "a\xEF\xBF\xBD");
}

TEST(SafetensorsWriter, SyncsBeforeItRenames) {
    MemoryFiles files;
    write_two(files, Existing::keep);
    const auto& log = files.log();
    ASSERT_GE(log.size(), 3U);
    EXPECT_EQ(log[log.size() - 3], "sync f/m.part");
    EXPECT_EQ(log[log.size() - 2], "rename f/m.part f/m");
    EXPECT_EQ(log[log.size() - 1], "sync_folder f");
}

TEST(SafetensorsWriter, RefusesATakenNameUnlessToldToReplace) {
    MemoryFiles files;
    files.put("f/m", "old");
    try {
        write_two(files, Existing::keep);
        ADD_FAILURE();
    } catch (const FileError& error) {
        EXPECT_STREQ(error.what(), "f/m (exists already)");
        EXPECT_EQ(error.code(), std::errc::file_exists);
    }
    EXPECT_EQ(files.get("f/m"), "old");
    EXPECT_THAT(files.names(), ElementsAre("f/m"));
    write_two(files, Existing::replace);
    EXPECT_EQ(SafetensorsReader(files, "f/m").tensors().size(), 2U);
    EXPECT_THAT(files.names(), ElementsAre("f/m"));
}

TEST(SafetensorsWriter, NeverReplacesAFolder) {
    for (const char* const name : {"f/m/x", "f/m.part/x"}) {
        MemoryFiles files;
        files.put(name, "content");
        EXPECT_THROW(write_two(files, Existing::replace), FileError);
        EXPECT_EQ(files.get(name), "content");
    }
}

TEST(SafetensorsWriter, RemovesWhatAnEarlierOneLeftBehind) {
    MemoryFiles files;
    files.put("f/m", "old");
    files.put("f/m.part", "left");
    files.put("f/m.old", "left");
    write_two(files, Existing::replace);
    EXPECT_THAT(files.names(), ElementsAre("f/m"));
}

TEST(SafetensorsWriter, LeavesNothingWhenItIsNotCommitted) {
    MemoryFiles files;
    {
        const SafetensorsWriter writer{files, "m", two_specs, {}, Existing::keep};
    }
    EXPECT_TRUE(files.names().empty());
}

// Whatever fails, the name stands for the old file or the new one, both whole.
TEST(SafetensorsWriter, LosesNoFileWhenAnyOperationFails) {
    MemoryFiles calm;
    calm.put("f/m", "old");
    write_two(calm, Existing::replace);
    const std::string whole = calm.get("f/m");
    for (std::int64_t operation = 0; operation < calm.operations(); ++operation) {
        for (const bool broken : {false, true}) {
            SCOPED_TRACE(std::to_string(operation) + (broken ? " and all after it" : ""));
            MemoryFiles files;
            files.put("f/m", "old");
            files.fail_at(operation, broken);
            EXPECT_THROW(write_two(files, Existing::replace), FileError);
            const std::string name = files.has("f/m") ? "f/m" : "f/m.old";
            ASSERT_TRUE(files.has(name));
            EXPECT_TRUE(files.get(name) == "old" || files.get(name) == whole);
            if (!broken) {
                EXPECT_TRUE(files.has("f/m"));
            }
        }
    }
}

TEST(SafetensorsWriter, InsistsOnEveryTensorOnceAndWhole) {
    MemoryFiles files;
    SafetensorsWriter writer{files, "m", two_specs, {}, Existing::keep};
    writer.write(0, bytes_of("zzzzZZZZ"));
    EXPECT_DEATH(writer.commit(), "broken promise");
    EXPECT_DEATH(writer.write(0, bytes_of("zzzzZZZZ")), "broken promise");
    EXPECT_DEATH(writer.write(1, bytes_of("aaaa")), "broken promise");
    EXPECT_DEATH(writer.write(2, {}), "broken promise");
}

TEST(SafetensorsWriter, WritesToTheHostsFiles) {
    const auto files = make_file_system();
    const std::string path = ::testing::TempDir() + "rhizome_" + std::to_string(::getpid());
    const std::vector<SafetensorsSpec> specs{{"a", {2}, DType::f32}};
    for (const Existing existing : {Existing::keep, Existing::replace}) {
        SafetensorsWriter writer{*files, path, specs, {}, existing};
        writer.write(0, bytes_of("abcdefgh"));
        writer.commit();
    }
    const SafetensorsReader reader{*files, path};
    std::vector<std::byte> values(8);
    reader.read(reader.tensors()[0], values);
    EXPECT_EQ(values, bytes_of("abcdefgh"));
    files->remove_all(path);
}

}  // namespace
}  // namespace rhizome::state
