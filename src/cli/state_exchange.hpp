// States to and from safetensors files: weights under Hugging Face's names for GPT-2, or raw, the
// whole state under our own names.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "cli/state_reports.hpp"

namespace rhizome::cli {

enum class ExportForm : std::uint8_t { gpt2, raw };

/// Throws ConfigError if the name is taken or cannot be written, DataError if it is no GPT and
/// should be one, StateError, FileError.
[[nodiscard]] WrittenReport export_state(const std::shared_ptr<state::FileSystem>& files,
                                         const std::string& from, const std::string& to,
                                         ExportForm form);

/// What decides a new state's keys: as for `rhizome train`, above what the file says itself.
struct ImportSources {
    Arguments flags;  // --KEY=VALUE, with --config
    Environment environment;
    ReadFile read_file;
};

/// Of a raw file the state that was exported; keys must not be given then. Else one of 0 steps with
/// the file's weights and moments that are zero. Throws ConfigError, SafetensorsError, FileError.
[[nodiscard]] WrittenReport import_state(const std::shared_ptr<state::FileSystem>& files,
                                         const std::string& from, const std::string& to,
                                         const ImportSources& sources);

}  // namespace rhizome::cli
