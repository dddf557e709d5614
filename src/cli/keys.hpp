// The one table of keys. Parsing, printing, help, the names of environment variables and the digest
// all read it, so a key that is added here is complete, and one that is not here does not exist.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run_config.hpp"
#include "cli/values.hpp"

namespace rhizome::cli {

enum class KeyKind : std::uint8_t {
    mathematics,  // decides the weights
    layout,       // does not
};

struct Key {
    std::string name;  // model.blocks
    KeyKind kind;
    std::string takes;  // 1..1024, fp32|fp64, PATH
    std::string help;   // one sentence
    /// Invariant: set(config, print(config)) changes nothing, unless print gives "" (not given).
    std::function<MaybeProblem(RunConfig&, std::string_view text)> set;
    std::function<std::string(const RunConfig&)> print;
    std::string default_text;  // where it is not what RunConfig{} prints
};

/// In the order of the help. Built once, never changed.
[[nodiscard]] const std::vector<Key>& keys();

/// Null if there is none of that name.
[[nodiscard]] const Key* find_key(std::string_view name);

inline constexpr std::string_view variable_prefix = "RHIZOME_";

/// model.blocks -> RHIZOME_MODEL_BLOCKS
[[nodiscard]] std::string variable_of(std::string_view key);

/// The key that stands for several, and those it sets.
inline constexpr std::string_view size_key = "model.size";
inline constexpr std::array<std::string_view, 5> keys_of_size{
    "model.blocks", "model.channels", "model.heads", "model.context", "model.vocabulary"};

/// The parameters of a size with tied embeddings.
[[nodiscard]] std::int64_t parameters(const model::GptSize& size);

}  // namespace rhizome::cli
