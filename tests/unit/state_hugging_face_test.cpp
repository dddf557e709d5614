#include "state/hugging_face.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "model/gpt.hpp"
#include "support/memory_files.hpp"

namespace rhizome::state {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using tests::MemoryFiles;

constexpr std::int64_t chunk_elements = 50;

constexpr GptFacts small{.blocks = 2,
                         .channels = 8,
                         .context = 5,
                         .vocabulary = 11,
                         .head = Head::tied,
                         .dtype = DType::f32};

GptFacts with(std::function<void(GptFacts&)> change) {
    GptFacts facts = small;
    change(facts);
    return facts;
}

const GptFacts untied = with([](GptFacts& facts) { facts.head = Head::untied; });

/// Tensors whose every element is another number of its own bits.
class Numbered final : public TensorSource {
  public:
    explicit Numbered(const StoredTable& table) : table_{table} {}

    void read(std::int32_t tensor, std::span<std::byte> to) override {
        const StoredTensor& spec = table_.tensors.at(static_cast<std::size_t>(tensor));
        const auto bytes = static_cast<std::size_t>(rhizome::bytes_of(spec.dtype));
        ASSERT_EQ(to.size(), static_cast<std::size_t>(spec.shape.elements()) * bytes);
        for (std::size_t i = 0; i * bytes < to.size(); ++i) {
            // Any bits will do: nobody computes with them, and some are no numbers at all.
            std::uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15U + static_cast<unsigned>(tensor);
            mixed ^= mixed >> 29;
            std::memcpy(to.data() + i * bytes, &mixed, bytes);
        }
    }

  private:
    const StoredTable& table_;
};

std::vector<std::byte> values_of(TensorSource& source, const StoredTable& table,
                                 std::int32_t tensor) {
    const StoredTensor& spec = table.tensors.at(static_cast<std::size_t>(tensor));
    std::vector<std::byte> values(
        static_cast<std::size_t>(spec.shape.elements() * rhizome::bytes_of(spec.dtype)));
    source.read(tensor, values);
    return values;
}

void export_to(FileSystem& files, const std::string& path, const GptFacts& facts) {
    const StoredTable table = gpt_table(facts, chunk_elements);
    Numbered source{table};
    export_gpt2(files, path, table, 2, source, {{"rhizome.mathematics", "seed = 1\n"}},
                Existing::keep);
}

/// A file's tensors and metadata, to be changed and written again.
struct Content {
    struct Tensor {
        SafetensorsSpec spec;
        std::vector<std::byte> values;
    };
    std::vector<Tensor> tensors;
    std::map<std::string, std::string> metadata;

    Tensor& at(const std::string& name) {
        const auto place = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
            return tensor.spec.name == name;
        });
        EXPECT_NE(place, tensors.end()) << name;
        return *place;
    }
    void remove(const std::string& name) {
        std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.spec.name == name; });
    }
    void add(const std::string& name, const std::vector<std::int64_t>& shape) {
        std::int64_t elements = 1;
        for (const std::int64_t extent : shape) elements *= extent;
        tensors.push_back({{name, shape, DType::f32},
                           std::vector<std::byte>(static_cast<std::size_t>(elements) * 4)});
    }
    void reshape(const std::string& name, const std::vector<std::int64_t>& shape) {
        remove(name);
        add(name, shape);
    }
};

Content read_all(FileSystem& files, const std::string& path) {
    const SafetensorsReader reader{files, path};
    Content content;
    content.metadata = reader.metadata();
    for (const SafetensorsTensor& tensor : reader.tensors()) {
        std::vector<std::byte> values(static_cast<std::size_t>(tensor.bytes));
        reader.read(tensor, values);
        content.tensors.push_back({{tensor.name, tensor.shape, reader.dtype_of(tensor)}, values});
    }
    return content;
}

void write_all(FileSystem& files, const std::string& path, const Content& content) {
    std::vector<SafetensorsSpec> specs;
    for (const Content::Tensor& tensor : content.tensors) specs.push_back(tensor.spec);
    SafetensorsWriter writer{files, path, specs, content.metadata, Existing::replace};
    for (std::size_t i = 0; i < specs.size(); ++i) writer.write(i, content.tensors[i].values);
    writer.commit();
}

using Change = std::function<void(Content&)>;

/// The export of a model, changed, and read again.
std::unique_ptr<Gpt2File> changed(MemoryFiles& files, const GptFacts& facts, const Change& change,
                                  ImportOptions options = {}) {
    files.remove_all("m");
    export_to(files, "m", facts);
    Content content = read_all(files, "m");
    change(content);
    write_all(files, "m", content);
    options.chunk_elements = chunk_elements;
    return std::make_unique<Gpt2File>(files, "m", options);
}

/// Why that is refused.
std::string refusal(const Change& change, const ImportOptions& options = {},
                    const GptFacts& facts = small) {
    MemoryFiles files;
    try {
        (void)changed(files, facts, change, options);
    } catch (const SafetensorsError& error) {
        return error.reason;
    }
    return "not refused";
}

const Change nothing = [](Content&) {};

model::GptConfig config_of(const GptFacts& facts) {
    return {.blocks = facts.blocks,
            .channels = facts.channels,
            .heads = 2,
            .context = facts.context,
            .vocabulary = facts.vocabulary,
            .tying = facts.head == Head::tied ? model::Tying::tied : model::Tying::untied};
}

TEST(GptTable, IsThatOfTheNetwork) {
    for (const Head head : {Head::tied, Head::untied}) {
        for (const DType dtype : {DType::f32, DType::f64}) {
            const GptFacts facts = with([&](GptFacts& f) {
                f.head = head;
                f.dtype = dtype;
                f.blocks = 11;
            });
            const model::Network network =
                model::make_gpt(config_of(facts), 2, dtype, chunk_elements);
            const StoredTable table = stored_table_of(network.table());
            EXPECT_EQ(gpt_table(facts, chunk_elements), table);
            EXPECT_EQ(gpt_facts_of(table), facts);
        }
    }
}

TEST(GptTable, OfSomethingElseIsNoGpts) {
    const StoredTable table = gpt_table(small, chunk_elements);
    EXPECT_FALSE(gpt_facts_of({.tensors = {}, .ties = {}, .chunk_elements = 50}));
    for (std::size_t i = 0; i < table.tensors.size(); ++i) {
        StoredTable other = table;
        other.tensors[i].name += "x";
        EXPECT_FALSE(gpt_facts_of(other)) << i;
        other = table;
        other.tensors.erase(other.tensors.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_FALSE(gpt_facts_of(other)) << i;
        other = table;
        other.tensors[i].shape = Shape{3, 3, 3};
        EXPECT_FALSE(gpt_facts_of(other)) << i;
    }
    StoredTable other = table;
    other.ties[0].owner = "embedding/position";
    EXPECT_FALSE(gpt_facts_of(other));
    EXPECT_THROW((void)hugging_face_tensors(other), DataError);
}

TEST(HuggingFaceNames, AreThoseOfGpt2LMHeadModel) {
    const auto tensors = hugging_face_tensors(gpt_table(with([](GptFacts& facts) {
                                                            facts.blocks = 1;
                                                            facts.head = Head::untied;
                                                        }),
                                                        chunk_elements));
    const std::vector<HuggingFaceTensor> expected{
        {0, "transformer.wte.weight", {11, 8}, Layout::same},
        {1, "transformer.wpe.weight", {5, 8}, Layout::same},
        {2, "transformer.h.0.ln_1.weight", {8}, Layout::same},
        {3, "transformer.h.0.ln_1.bias", {8}, Layout::same},
        {4, "transformer.h.0.attn.c_attn.weight", {8, 24}, Layout::transposed},
        {5, "transformer.h.0.attn.c_attn.bias", {24}, Layout::same},
        {6, "transformer.h.0.attn.c_proj.weight", {8, 8}, Layout::transposed},
        {7, "transformer.h.0.attn.c_proj.bias", {8}, Layout::same},
        {8, "transformer.h.0.ln_2.weight", {8}, Layout::same},
        {9, "transformer.h.0.ln_2.bias", {8}, Layout::same},
        {10, "transformer.h.0.mlp.c_fc.weight", {8, 32}, Layout::transposed},
        {11, "transformer.h.0.mlp.c_fc.bias", {32}, Layout::same},
        {12, "transformer.h.0.mlp.c_proj.weight", {32, 8}, Layout::transposed},
        {13, "transformer.h.0.mlp.c_proj.bias", {8}, Layout::same},
        {14, "transformer.ln_f.weight", {8}, Layout::same},
        {15, "transformer.ln_f.bias", {8}, Layout::same},
        {16, "lm_head.weight", {11, 8}, Layout::same}};
    EXPECT_EQ(tensors, expected);
}

TEST(HuggingFaceExport, TransposesMatricesAndSaysWhatItIs) {
    MemoryFiles files;
    export_to(files, "m", small);
    Content content = read_all(files, "m");
    EXPECT_EQ(content.tensors.size(), 2 + 2 * 12 + 2U);  // no head of its own
    EXPECT_THAT(content.metadata, ElementsAre(Pair("format", "pt"), Pair("rhizome.heads", "2"),
                                              Pair("rhizome.mathematics", "seed = 1\n")));
    const StoredTable table = gpt_table(small, chunk_elements);
    Numbered source{table};
    const std::vector<std::byte> ours = values_of(source, table, 4);  // (24, 8)
    const std::vector<std::byte>& theirs =
        content.at("transformer.h.0.attn.c_attn.weight").values;  // (8, 24)
    for (std::size_t output = 0; output < 24; ++output) {
        for (std::size_t input = 0; input < 8; ++input) {
            EXPECT_EQ(std::memcmp(ours.data() + 4 * (output * 8 + input),
                                  theirs.data() + 4 * (input * 24 + output), 4),
                      0);
        }
    }
    EXPECT_EQ(content.at("transformer.wte.weight").values, values_of(source, table, 0));
}

TEST(HuggingFaceImport, OfAnExportIsTheSameBits) {
    for (const Head head : {Head::tied, Head::untied}) {
        for (const DType dtype : {DType::f32, DType::f64}) {
            // 40 and 120 are no multiples of a tile.
            const GptFacts facts = with([&](GptFacts& f) {
                f.head = head;
                f.dtype = dtype;
                f.channels = 40;
            });
            MemoryFiles files;
            export_to(files, "m", facts);
            Gpt2File file{files, "m", {.chunk_elements = chunk_elements}};
            EXPECT_EQ(file.facts(), facts);
            EXPECT_EQ(file.heads(), 2);
            const StoredTable table = gpt_table(facts, chunk_elements);
            EXPECT_EQ(file.table(), table);
            Numbered source{table};
            for (std::int32_t t = 0; t < static_cast<std::int32_t>(table.tensors.size()); ++t) {
                EXPECT_EQ(values_of(file, table, t), values_of(source, table, t)) << t;
            }
            export_gpt2(files, "again", file.table(), file.heads(), file, file.metadata(),
                        Existing::keep);
            EXPECT_EQ(files.get("again"), files.get("m"));
        }
    }
}

TEST(HuggingFaceImport, TakesNamesWithoutPrefixAndPassesBuffersOver) {
    MemoryFiles files;
    const auto file = changed(files, small, [](Content& content) {
        for (Content::Tensor& tensor : content.tensors) {
            tensor.spec.name = tensor.spec.name.substr(std::strlen("transformer."));
        }
        for (const char* const block : {"h.0.", "h.1."}) {
            content.add(std::string{block} + "attn.bias", {1, 1, 5, 5});
            content.add(std::string{block} + "attn.masked_bias", {});
        }
    });
    const StoredTable table = gpt_table(small, chunk_elements);
    Numbered source{table};
    EXPECT_EQ(file->table(), table);
    EXPECT_EQ(values_of(*file, table, 10), values_of(source, table, 10));
}

TEST(HuggingFaceImport, TellsATiedHeadByItsBits) {
    const Change head_is_token = [](Content& content) {
        content.tensors.push_back(content.at("transformer.wte.weight"));
        content.tensors.back().spec.name = "lm_head.weight";
    };
    const Change last_bit = [&](Content& content) {
        head_is_token(content);
        content.at("lm_head.weight").values.back() ^= std::byte{1};
    };
    MemoryFiles files;
    EXPECT_EQ(changed(files, small, head_is_token)->facts(), small);
    EXPECT_EQ(changed(files, small, head_is_token, {.head = Head::tied})->facts(), small);
    EXPECT_EQ(changed(files, small, head_is_token, {.head = Head::untied})->facts(), untied);
    const auto file = changed(files, small, last_bit);
    EXPECT_EQ(file->facts(), untied);
    const auto last = static_cast<std::int32_t>(file->table().tensors.size()) - 1;
    EXPECT_NE(values_of(*file, file->table(), last), values_of(*file, file->table(), 0));
    EXPECT_EQ(refusal(last_bit, {.head = Head::tied}),
              "its lm_head.weight is not its token embedding");
    EXPECT_EQ(refusal(nothing, {.head = Head::untied}), "has no lm_head.weight");
    EXPECT_EQ(refusal([](Content& c) { c.reshape("lm_head.weight", {8, 11}); }, {}, untied),
              "tensor lm_head.weight has the shape (8, 11) instead of (11, 8)");
}

TEST(HuggingFaceImport, NeedsTheNumberOfHeads) {
    const auto say = [](std::string heads) {
        return [=](Content& content) { content.metadata[heads_key] = heads; };
    };
    const Change silent = [](Content& content) { content.metadata.clear(); };
    MemoryFiles files;
    EXPECT_EQ(changed(files, small, silent, {.heads = 4})->heads(), 4);
    EXPECT_EQ(changed(files, small, nothing, {.heads = 2})->heads(), 2);
    EXPECT_EQ(refusal(silent), "does not say how many attention heads it has");
    EXPECT_EQ(refusal(nothing, {.heads = 4}), "says that it has 2 attention heads");
    EXPECT_EQ(refusal(say("3")), "3 attention heads do not divide its 8 channels");
    EXPECT_EQ(refusal(say("0")), "0 attention heads do not divide its 8 channels");
    EXPECT_EQ(refusal(say("-2")), "-2 attention heads do not divide its 8 channels");
    EXPECT_EQ(refusal(say("4294967297")),
              "4294967297 attention heads do not divide its 8 channels");
    EXPECT_THAT(refusal(say("two")), HasSubstr("attention heads do not divide"));
    EXPECT_EQ(refusal(silent, {.heads = 16}), "16 attention heads do not divide its 8 channels");
}

TEST(HuggingFaceImport, NamesWhatIsMissing) {
    const auto without = [](std::vector<std::string> names) {
        return [=](Content& content) {
            for (const std::string& name : names) content.remove("transformer." + name);
        };
    };
    EXPECT_EQ(refusal(without({"wte.weight"})), "has no tensor wte.weight");
    EXPECT_EQ(refusal(without({"wpe.weight"})), "has no tensor wpe.weight");
    EXPECT_EQ(refusal(without({"h.1.attn.c_attn.bias"})), "has no tensor h.1.attn.c_attn.bias");
    EXPECT_EQ(refusal(without({"ln_f.bias", "h.0.mlp.c_fc.bias", "h.1.ln_2.bias"})),
              "has no tensor h.0.mlp.c_fc.bias and 2 more");
    EXPECT_EQ(refusal(without({"h.0.ln_1.weight", "h.1.ln_1.weight"})),
              "has no tensor h.0.ln_1.weight");
}

TEST(HuggingFaceImport, NamesWhatIsTooMuch) {
    const auto plus = [](std::string name) {
        return [=](Content& content) { content.add(name, {8}); };
    };
    EXPECT_EQ(refusal(plus("score.weight")), "has a tensor that no GPT-2 has, score.weight");
    EXPECT_EQ(refusal(plus("transformer.h.0.crossattention.bias")),
              "has a tensor that no GPT-2 has, transformer.h.0.crossattention.bias");
    EXPECT_EQ(refusal(plus("transformer.h.00.ln_2.weight")),
              "has a tensor that no GPT-2 has, transformer.h.00.ln_2.weight");
    EXPECT_EQ(refusal(plus("h.1.ln_2.weight")),
              "tensors transformer.h.1.ln_2.weight and h.1.ln_2.weight are the same");
    // Counted as a third block, which is then the one that is missing.
    EXPECT_EQ(refusal(plus("h.4000000000.ln_1.weight")),
              "has no tensor h.2.ln_1.weight and 11 more");
}

TEST(HuggingFaceImport, NamesWrongShapes) {
    const auto reshape = [](std::string name, std::vector<std::int64_t> shape) {
        return [=](Content& content) { content.reshape("transformer." + name, shape); };
    };
    // As torch.nn.Linear has it, which these models do not use there.
    EXPECT_EQ(refusal(reshape("h.1.attn.c_attn.weight", {24, 8})),
              "tensor transformer.h.1.attn.c_attn.weight has the shape (24, 8) instead of (8, 24)");
    EXPECT_EQ(refusal(reshape("h.0.ln_1.bias", {1, 8})),
              "tensor transformer.h.0.ln_1.bias has the shape (1, 8) instead of (8)");
    EXPECT_EQ(refusal(reshape("wpe.weight", {5, 9})),
              "tensor transformer.wpe.weight has the shape (5, 9) instead of (5, 8)");
    EXPECT_EQ(refusal(reshape("wte.weight", {88})),
              "tensor transformer.wte.weight has the shape (88), not (rows, channels)");
    EXPECT_EQ(refusal(reshape("wpe.weight", {0, 8})),
              "tensor transformer.wpe.weight has the shape (0, 8), not (rows, channels)");
    EXPECT_EQ(refusal([](Content& content) {
                  Content::Tensor& tensor = content.at("transformer.ln_f.bias");
                  tensor.spec.dtype = DType::f64;
                  tensor.values.resize(64);
              }),
              "tensor transformer.ln_f.bias has another dtype than wte.weight");
}

TEST(HuggingFaceImport, AsksForHalfPrecisionToBeConverted) {
    MemoryFiles files;
    export_to(files, "m", small);
    std::string content = files.get("m");
    // The same bytes as twice as many numbers.
    const std::string wte = R"("transformer.wte.weight":{"dtype":"F32","shape":[11,8])";
    const std::string half = R"("transformer.wte.weight":{"dtype":"F16","shape":[22,8])";
    const std::size_t place = content.find(wte);
    ASSERT_NE(place, std::string::npos);
    files.put("m", content.replace(place, wte.size(), half));
    try {
        const Gpt2File file{files, "m", {.chunk_elements = chunk_elements}};
        ADD_FAILURE();
    } catch (const SafetensorsError& error) {
        EXPECT_STREQ(error.what(),
                     "safetensors file m (tensor transformer.wte.weight has dtype F16, which is "
                     "not read here), convert it to F32 first");
    }
}

}  // namespace
}  // namespace rhizome::state
