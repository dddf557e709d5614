// A fixed team of compute threads for loops whose turns do not depend on one another. The caller
// works too, so a pool of one starts no thread. How turns are dealt out never shows in results.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rhizome::device {

class ThreadPool {
  public:
    using Body = std::function<void(std::int64_t first, std::int64_t last)>;

    /// Throws std::system_error if the system has no more threads to give.
    explicit ThreadPool(std::int32_t threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] std::int32_t threads() const {
        return static_cast<std::int32_t>(helpers_.size()) + 1;
    }

    /// Calls body on pieces that cover [0, turns), one piece per thread at most; returns when all
    /// are done, and throws what a body threw first. One caller at a time, and none from inside a
    /// body.
    void run(std::int64_t turns, const Body& body);

  private:
    void help(std::size_t helper);
    void run_piece(std::size_t piece);
    void stop();

    std::mutex mutex_;
    std::condition_variable start_;
    std::condition_variable finish_;
    const Body* body_ = nullptr;  // of the running loop
    std::int64_t turns_ = 0;      // of the running loop
    std::uint64_t round_ = 0;     // counts loops, so that a helper takes part once in each
    std::size_t helpers_busy_ = 0;
    std::exception_ptr thrown_;  // by a body of the running loop
    bool stop_ = false;
    std::vector<std::jthread> helpers_;
};

}  // namespace rhizome::device
