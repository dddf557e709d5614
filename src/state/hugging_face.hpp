// GPTs as Hugging Face's libraries name and lay them out (GPT2LMHeadModel), so that models come
// from there and go there:
//
//   embedding/token           transformer.wte.weight               (V, C)
//   embedding/position        transformer.wpe.weight               (T, C)
//   block.N/norm_1.*          transformer.h.N.ln_1.*
//   block.N/attention.*       transformer.h.N.attn.c_attn.*        weight (C, 3C): transposed
//   block.N/projection.*      transformer.h.N.attn.c_proj.*        weight (C, C): transposed
//   block.N/norm_2.*          transformer.h.N.ln_2.*
//   block.N/expand.*          transformer.h.N.mlp.c_fc.*           weight (C, 4C): transposed
//   block.N/contract.*        transformer.h.N.mlp.c_proj.*         weight (4C, C): transposed
//   final_norm/*              transformer.ln_f.*
//   head/weight               lm_head.weight                       (V, C); left out when tied
//
// Values are copied and never computed with, so that there and back again are the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "state/facts.hpp"
#include "state/safetensors.hpp"

namespace rhizome::state {

enum class Head : std::uint8_t { tied, untied };  // is it the token embedding, used again?

/// What the shapes of a GPT's tensors say about it. Heads are not in there.
struct GptFacts {
    std::int32_t blocks;
    std::int32_t channels;
    std::int32_t context;
    std::int32_t vocabulary;
    Head head;
    DType dtype;
    friend bool operator==(const GptFacts&, const GptFacts&) = default;
};

/// The tensors of such a GPT, as the network itself lists them.
[[nodiscard]] StoredTable gpt_table(const GptFacts& facts, std::int64_t chunk_elements);

/// Nothing if these are not the tensors of a GPT.
[[nodiscard]] std::optional<GptFacts> gpt_facts_of(const StoredTable& table);

enum class Layout : std::uint8_t { same, transposed };

/// One of our tensors in such a file.
struct HuggingFaceTensor {
    std::int32_t tensor;  // place in StoredTable::tensors
    std::string name;     // "transformer.h.3.attn.c_attn.weight"
    std::vector<std::int64_t> shape;
    Layout layout;
    friend bool operator==(const HuggingFaceTensor&, const HuggingFaceTensor&) = default;
};

/// All tensors of a GPT, in the table's order. Throws DataError if it is no GPT.
[[nodiscard]] std::vector<HuggingFaceTensor> hugging_face_tensors(const StoredTable& table);

/// Whoever has the values of a table's tensors: a state, a file, a network.
class TensorSource {
  public:
    virtual ~TensorSource() = default;
    TensorSource() = default;
    TensorSource(const TensorSource&) = delete;
    TensorSource& operator=(const TensorSource&) = delete;

    /// All elements of a tensor, row-major, into exactly so many bytes.
    virtual void read(std::int32_t tensor, std::span<std::byte> to) = 0;
};

/// Where a file says how many attention heads there are: nothing else in it does.
inline constexpr const char* heads_key = "rhizome.heads";

/// Writes the tensors of a GPT, one in memory at a time. What it writes of itself into the
/// metadata, `format` (other libraries ask for it) and heads, wins over the caller's. Throws
/// DataError if it is no GPT, FileError, and what `source` throws.
void export_gpt2(FileSystem& files, const std::string& path, const StoredTable& table,
                 std::int32_t heads, TensorSource& source,
                 std::map<std::string, std::string> metadata, Existing existing);

struct ImportOptions {
    std::int64_t chunk_elements = 0;
    /// Nothing: what the file says.
    std::optional<std::int32_t> heads{};
    /// Nothing: tied if the file has no lm_head.weight, or one with the embedding's very bits.
    std::optional<Head> head{};
};

/// A GPT-2 in a safetensors file, with our names and layouts. Names may lack `transformer.`, as
/// those of the first published models do; their buffers (attention masks) are passed over.
class Gpt2File final : public TensorSource {
  public:
    /// Checks that exactly the tensors of a GPT are in it. Throws SafetensorsError, FileError.
    Gpt2File(FileSystem& files, const std::string& path, const ImportOptions& options);

    [[nodiscard]] const GptFacts& facts() const { return facts_; }
    [[nodiscard]] std::int32_t heads() const { return heads_; }
    [[nodiscard]] const StoredTable& table() const { return table_; }
    [[nodiscard]] const std::map<std::string, std::string>& metadata() const {
        return reader_.metadata();
    }
    /// Throws FileError.
    void read(std::int32_t tensor, std::span<std::byte> to) override;

  private:
    [[noreturn]] void fail(const std::string& reason, const std::string& hint) const;
    void list_tensors();
    void find_facts(std::optional<Head> head);
    [[nodiscard]] Head find_head(std::optional<Head> wanted) const;
    void find_heads(std::optional<std::int32_t> wanted);
    [[nodiscard]] const SafetensorsTensor& needed(const std::string& name) const;
    void match_tensors();

    SafetensorsReader reader_;
    /// By name without prefix; pointers into the reader's list.
    std::map<std::string, const SafetensorsTensor*> found_;
    GptFacts facts_{};
    std::int32_t heads_ = 0;
    StoredTable table_{};
    std::vector<HuggingFaceTensor> tensors_;        // by place in the table
    std::vector<const SafetensorsTensor*> stored_;  // by place in the table
};

}  // namespace rhizome::state
