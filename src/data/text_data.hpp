// Text as training and validation sets of next-token samples. docs/MATHEMATICS.md defines which
// tokens make a sample and which samples are split off for validation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "data/sequence.hpp"

namespace rhizome::data {

/// `train` and `validation` are each one path or a shell-style pattern ("shards/train_*.bin"),
/// whose files are taken in the order of their names, byte by byte, in every locale. A backslash
/// takes the meaning from a star, a question mark or a bracket. No sample crosses from one file
/// into the next.
struct DataConfig {
    std::string train;
    std::string validation;         // empty: split off the end of the training files
    double validation_share = 0.1;  // in [0, 1), of the samples; only for splitting
    Format format = Format::bytes;

    friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

/// Fields of both sets, in this order: "tokens" (T) and "targets" (T), i32, the same tokens shifted
/// by one.
struct Datasets {
    std::unique_ptr<Dataset> train;
    std::unique_ptr<Dataset> validation;  // null: no file was named and the share is 0
    /// Of the tokens in training samples, file by file. It says whether two runs train on the same
    /// data, which their paths do not; validation does not enter.
    std::string train_digest;
};

/// Maps all files, copies none, and reads each once to check it. Throws ConfigError if the
/// vocabulary cannot hold the format, and DataError, naming the file, for whatever is wrong with
/// one.
[[nodiscard]] Datasets open_datasets(const DataConfig& config, std::int32_t context,
                                     std::int32_t vocabulary);

}  // namespace rhizome::data
