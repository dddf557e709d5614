#include "device/thread_pool.hpp"

#include <utility>

#include "core/error.hpp"

namespace rhizome::device {

ThreadPool::ThreadPool(std::int32_t threads) {
    ENSURE(threads >= 1);
    try {
        for (std::size_t helper = 0; helper + 1 < static_cast<std::size_t>(threads); ++helper) {
            helpers_.emplace_back([this, helper] { help(helper); });
        }
    } catch (...) {
        stop();  // or those that did start would be waited for in vain
        throw;
    }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
    {
        const std::scoped_lock lock{mutex_};
        stop_ = true;
    }
    start_.notify_all();
}

void ThreadPool::run(std::int64_t turns, const Body& body) {
    if (turns <= 0) return;
    if (helpers_.empty() || turns == 1) {
        body(0, turns);
        return;
    }
    {
        const std::scoped_lock lock{mutex_};
        ENSURE(helpers_busy_ == 0);
        body_ = &body;
        turns_ = turns;
        helpers_busy_ = helpers_.size();
        ++round_;
    }
    start_.notify_all();
    run_piece(helpers_.size());
    std::unique_lock lock{mutex_};
    finish_.wait(lock, [this] { return helpers_busy_ == 0; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::help(std::size_t helper) {
    std::uint64_t round_seen = 0;
    while (true) {
        {
            std::unique_lock lock{mutex_};
            start_.wait(lock, [&] { return stop_ || round_ != round_seen; });
            if (stop_) return;
            round_seen = round_;
        }
        run_piece(helper);
        const std::scoped_lock lock{mutex_};
        if (--helpers_busy_ == 0) finish_.notify_one();
    }
}

void ThreadPool::run_piece(std::size_t piece) {
    const auto pieces = static_cast<std::int64_t>(helpers_.size()) + 1;
    const auto place = static_cast<std::int64_t>(piece);
    const std::int64_t first = turns_ * place / pieces;
    const std::int64_t last = turns_ * (place + 1) / pieces;
    if (first >= last) return;
    try {
        (*body_)(first, last);
    } catch (...) {
        const std::scoped_lock lock{mutex_};
        if (!thrown_) thrown_ = std::current_exception();
    }
}

}  // namespace rhizome::device
