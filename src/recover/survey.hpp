// What the survivors of a loss know, gathered once they are the members of a new epoch. Everybody
// tells everybody, so that all decide by the same facts: the map from before the loss does not say
// who has the parameters of the last step, nor who has lost its state on the way back to a file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace rhizome::recover {

/// What one survivor says of itself. Sets go by place: chunks as in every ownership map of the
/// table of layers, layers as in the table.
struct Report {
    WorkerId worker{0};
    std::int32_t steps = 0;     // that it knows to be committed
    std::vector<bool> owns{};   // by chunk: parameters and moments, whole, after these steps
    std::vector<bool> holds{};  // by layer: all of its parameters, after these steps
    /// By lane: it has the sum of the lane's gradients in all layers that it computes, and the
    /// losses if it makes them, of the step that is under way.
    std::vector<bool> lanes{};
    /// What its training loop has to say to the others; decisions do not look at it.
    std::vector<std::int32_t> notes{};

    friend bool operator==(const Report&, const Report&) = default;
};

/// How large the parts of a report are, the same for all workers of a run.
struct ReportSize {
    std::size_t chunks;
    std::size_t layers;
    std::size_t lanes;
    std::size_t notes;
};

/// By all members, ascending by worker.
struct Survey {
    std::vector<Report> reports;
};

/// As it travels: as many numbers as words_of() says.
[[nodiscard]] std::size_t words_of(const ReportSize& size);
[[nodiscard]] std::vector<std::uint32_t> to_words(const Report& report);
[[nodiscard]] Report parse_report(WorkerId worker, const ReportSize& size,
                                  std::span<const std::uint32_t> words);

}  // namespace rhizome::recover
