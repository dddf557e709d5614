// GPT-2 as a list of layers: embedding, pre-norm blocks, final norm, and a head with cross-entropy
// (Radford et al. 2019). Formulas, tensor names and dropout sites are those of docs/MATHEMATICS.md.
#pragma once

#include "model/gpt_config.hpp"
#include "model/network.hpp"

namespace rhizome::model {

/// For microbatches of `rows` samples. Reads the data fields "tokens" and "targets", both (rows,
/// context) i32. The configuration is already checked.
[[nodiscard]] Network make_gpt(const GptConfig& config, std::int32_t rows, DType dtype,
                               std::int64_t chunk_elements);

}  // namespace rhizome::model
