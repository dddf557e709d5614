// Lines for the person who watches a run. A value that main builds and passes down: there is no
// global log, so a test or a simulated run reads its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"

namespace rhizome {

class Log {
  public:
    using Sink = std::function<void(std::string_view line)>;

    /// `sink` gets each line without its end, control characters made visible.
    explicit Log(Sink sink) : sink_{std::move(sink)} {}

    void info(std::string_view text) const { sink_(visible(text)); }
    void warn(std::string_view text) const { sink_("warning: " + visible(text)); }
    void error(std::string_view text) const { sink_("error: " + visible(text)); }

  private:
    Sink sink_;
};

/// Whole lines to a file descriptor, one write each, so that lines of several processes do not mix.
[[nodiscard]] Log log_to(int descriptor);

/// All of `text`, however many writes it takes. If nobody can take it, it is lost in silence:
/// training matters more than what it prints. (main ignores SIGPIPE.)
void write_all(int descriptor, std::string_view text);

}  // namespace rhizome
