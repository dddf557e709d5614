// Work beside the training, one piece at a time. An interface, so that tests decide when it is
// done.
#pragma once

#include <functional>
#include <memory>

namespace rhizome::engine {

class Background {
  public:
    virtual ~Background() = default;
    Background() = default;
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;

    /// Begins; only when idle. `work` must not throw, and must own what it uses: a disk that does
    /// not answer may hold it for ever, and nobody waits for it then.
    virtual void start(std::function<void()> work) = 0;
    /// Is nothing under way? What the last piece has written can be read then.
    [[nodiscard]] virtual bool idle() = 0;
};

/// A thread of its own. The destructor leaves it alone if it is busy.
[[nodiscard]] std::unique_ptr<Background> make_background_thread();

}  // namespace rhizome::engine
