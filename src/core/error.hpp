// Three kinds of trouble, one form each:
//   our code is wrong    ENSURE(...)            stops this process; never compiled out
//   the input is wrong   throw a UserError      caught once, in main
//   a peer went away     return a CommStatus    daily life on preemptible nodes, so it is a value
// A message to the user reads "problem (reason), hint".
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rhizome {

/// What a program's exit code says. The table in README.md is the contract.
enum class ExitCode : std::uint8_t {
    done = 0,        // everything asked for was done
    our_fault = 1,   // an ENSURE failed or something unforeseen was thrown: a bug of ours
    bad_config = 2,  // command line, configuration file or environment; or too little memory
    bad_data = 3,    // a data file is missing, damaged or does not fit the configuration
    diverged = 4,    // loss, gradient or parameters are no longer finite
    peer_lost = 5,   // a worker was lost, or late beyond its deadline, and the run could not go on
    stopped = 6,     // ended early because somebody asked for it
    unfinished = 7,  // the run's processes are gone and left no word of how it ended
    unsaved = 8,     // ended as it should, but its last state could not be saved
    different = 9,   // two states were compared, and their values are not equal
};

/// Something outside this program is wrong, and somebody can mend it.
class UserError : public std::runtime_error {
  public:
    UserError(ExitCode code, const std::string& message)
        : std::runtime_error{message}, code_{code} {}
    [[nodiscard]] ExitCode code() const { return code_; }

  private:
    ExitCode code_;
};

struct ConfigError : UserError {
    explicit ConfigError(const std::string& message) : UserError{ExitCode::bad_config, message} {}
};

struct DataError : UserError {
    explicit DataError(const std::string& message) : UserError{ExitCode::bad_data, message} {}
};

struct DivergedError : UserError {
    explicit DivergedError(const std::string& message) : UserError{ExitCode::diverged, message} {}
};

/// Outcome of anything that needs a peer.
enum class [[nodiscard]] CommStatus : std::uint8_t { ok, peer_lost, revoked, timed_out };

/// As events and tests write it: "ok", "peer_lost", "revoked", "timed_out".
[[nodiscard]] std::string_view name_of(CommStatus status);

/// Prints what failed and where, then ends the process with ExitCode::our_fault. No unwinding: the
/// state that broke its promise must not be touched again.
[[noreturn]] void fail_ensure(const char* condition, const char* file, int line);

#define ENSURE(condition) \
    ((condition) ? void() : ::rhizome::fail_ensure(#condition, __FILE__, __LINE__))

}  // namespace rhizome
