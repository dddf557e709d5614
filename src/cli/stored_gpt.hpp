// Trained GPTs where they are stored: in a state, in a run's folder that has states, or in a
// safetensors file. Whoever uses one asks for its configuration and its tensors, and needs not know
// which it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.hpp"
#include "model/gpt_config.hpp"
#include "state/file_system.hpp"
#include "state/hugging_face.hpp"

namespace rhizome::cli {

enum class TokenKind : std::uint8_t {
    bytes,    // of a text
    numbers,  // that only whoever made the data can read
};

struct StoredGpt {
    std::string path;
    model::GptConfig model;
    DType precision;
    TokenKind tokens;
    /// Of the tensors in the order of LayerTable::owned(); checks what it reads, and throws
    /// StateError, FileError.
    std::unique_ptr<state::TensorSource> weights;
};

/// What a user's word may mean, best first: one state or file, or a run's states from the newest
/// on. Throws DataError if there is none.
[[nodiscard]] std::vector<std::string> find_stored_gpts(state::FileSystem& files,
                                                        const std::string& from);

/// One of those. `heads` is for files that do not say how many there are. Throws StateError if the
/// state is damaged, FileError, and DataError or ConfigError for all that an older state of the run
/// would not mend.
[[nodiscard]] StoredGpt open_stored_gpt(const std::shared_ptr<state::FileSystem>& files,
                                        const std::string& path, std::optional<std::int32_t> heads);

}  // namespace rhizome::cli
