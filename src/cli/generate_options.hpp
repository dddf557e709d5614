// What `rhizome generate` is asked: which network, what the text begins with, and how to go on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/sources.hpp"
#include "engine/token_choice.hpp"

namespace rhizome::cli {

struct GenerateOptions {
    std::string from{};    // a state, a run's folder, or a file of weights
    std::string prompt{};  // text; of no meaning beside prompt_ids
    std::optional<std::vector<std::int32_t>> prompt_ids{};  // not empty
    std::int32_t tokens = 200;
    engine::TokenRule rule{};
    std::uint64_t seed = 1;
    std::optional<std::int32_t> heads{};  // of a file that does not say it
    std::int32_t threads = 1;
    friend bool operator==(const GenerateOptions&, const GenerateOptions&) = default;
};

/// `arguments` are those after the command. Throws ConfigError.
[[nodiscard]] GenerateOptions parse_generate_options(const Arguments& arguments);

[[nodiscard]] std::string generate_help_text();

}  // namespace rhizome::cli
