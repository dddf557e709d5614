// What the rest of the program sees of the data: numbered samples that are rows of named fields.
// That the rows are text, or images one day, stays in this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/shape.hpp"

namespace rhizome::data {

/// Invariant: samples() is positive and nothing here changes while the object lives, so it may be
/// read from several threads.
class Dataset {
  public:
    virtual ~Dataset() = default;

    [[nodiscard]] virtual std::int64_t samples() const = 0;
    /// Shape of ONE sample's row per field, e.g. "tokens" (T) and "targets" (T); a microbatch of B
    /// samples stacks B rows.
    [[nodiscard]] virtual std::span<const TensorSpec> fields() const = 0;
    /// Writes one sample's row of one field; `row` has fields()[field].bytes() bytes, aligned or
    /// not.
    virtual void read(std::int64_t sample, std::size_t field, std::span<std::byte> row) const = 0;
    /// How many terms the sample adds to the loss; known before any forward pass, because the
    /// divisor of a step is needed before its first backward.
    [[nodiscard]] virtual std::int64_t loss_terms(std::int64_t sample) const = 0;
};

}  // namespace rhizome::data
