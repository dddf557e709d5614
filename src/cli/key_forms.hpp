// Private to the table of keys: the forms that most of them have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/keys.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {

inline constexpr std::int64_t count_max = std::numeric_limits<std::int32_t>::max();

// `field` finds the place in a configuration: [](auto& c) -> auto& { return c.model.blocks; }

template <class Field>
Key whole(std::string name, KeyKind kind, WholeRange range, std::string help, Field field,
          std::string default_text = "") {
    const auto set = [range, field](RunConfig& config, std::string_view text) {
        std::int64_t value{};
        MaybeProblem problem = read_whole(text, range, value);
        auto& target = field(config);
        if (!problem) target = static_cast<std::remove_reference_t<decltype(target)>>(value);
        return problem;
    };
    const auto print = [field](const RunConfig& config) { return std::to_string(field(config)); };
    return {std::move(name),        kind, to_text(range), std::move(help), set, print,
            std::move(default_text)};
}

template <class Field>
Key real(std::string name, KeyKind kind, RealRange range, std::string help, Field field) {
    const auto set = [range, field](RunConfig& config, std::string_view text) {
        return read_real(text, range, field(config));
    };
    const auto print = [field](const RunConfig& config) { return rhizome::to_text(field(config)); };
    return {std::move(name), kind, "number " + std::string{range.text}, std::move(help), set,
            print,           ""};
}

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

template <class Value, class Field>
Key choice(std::string name, KeyKind kind, const Choices<Value>& choices, std::string help,
           Field field) {
    std::string takes;
    for (const auto& [word, value] : choices) takes += (takes.empty() ? "" : "|") + word;
    const auto set = [choices, takes, field](RunConfig& config, std::string_view text) {
        for (const auto& [word, value] : choices) {
            if (word == text) {
                field(config) = value;
                return MaybeProblem{};
            }
        }
        return MaybeProblem{Problem{"no such choice", "take " + takes}};
    };
    const auto print = [choices, field](const RunConfig& config) {
        const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& entry) {
            return entry.second == field(config);
        });
        ENSURE(found != choices.end());
        return found->first;
    };
    return {std::move(name), kind, takes, std::move(help), set, print, ""};
}

template <class Field>
Key path(std::string name, std::string help, Field field, std::string default_text) {
    const auto set = [field](RunConfig& config, std::string_view text) {
        return read_path(text, field(config));
    };
    const auto print = [field](const RunConfig& config) { return std::string{field(config)}; };
    return {std::move(name), KeyKind::layout,        "PATH", std::move(help), set,
            print,           std::move(default_text)};
}

/// Those that decide how a run is done: where data are and what is computed when, and the shape of
/// the run.
[[nodiscard]] std::vector<Key> make_layout_keys();
[[nodiscard]] std::vector<Key> make_shape_keys();

}  // namespace rhizome::cli
