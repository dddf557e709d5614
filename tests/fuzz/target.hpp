// A fuzz target: code that takes whatever bytes come from outside, and what the driver needs to
// know of it. Each tests/fuzz/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput, seeds and mend.
//
// A target dies (ENSURE, a signal, an exception that is none of the expected ones, a sanitizer)
// when its code does wrong; refusing an input in the form of the house is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

// libFuzzer's name for it. Returns 0.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rhizome::fuzz {

/// Inputs that the code accepts; others are made of them. Always the same ones.
[[nodiscard]] std::vector<std::string> seeds();

/// Makes lengths and digests right that a mutation has made wrong, so that what lies behind their
/// checks is reached as well. May do nothing.
void mend(std::string& input);

enum class Outcome : std::uint8_t { accepted, refused };

/// To be called once for each input. The driver counts, since a target that refuses everything (or
/// nothing) tests little.
void note(Outcome outcome);

/// Notes that an input was refused, which has to be in the form of the house.
inline void note_refusal(const UserError& error) {
    const std::string message = error.what();
    ENSURE(visible(message) == message);
    ENSURE(message.find(" (") != std::string::npos && message.find("), ") != std::string::npos);
    note(Outcome::refused);
}

}  // namespace rhizome::fuzz
