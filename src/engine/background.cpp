#include "engine/background.hpp"

#include <atomic>
#include <csignal>
#include <thread>

#include "core/error.hpp"

namespace rhizome::engine {
namespace {

class BackgroundThread final : public Background {
  public:
    ~BackgroundThread() override { end(); }

    void start(std::function<void()> work) override {
        ENSURE(idle());
        end();
        busy_ = std::make_shared<std::atomic<bool>>(true);
        // Signals are the main thread's: a new thread begins with the mask of its maker.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        ENSURE(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
        thread_ = std::thread{[work = std::move(work), busy = busy_] {
            work();
            busy->store(false, std::memory_order_release);
        }};
        ENSURE(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
    }

    [[nodiscard]] bool idle() override {
        return busy_ == nullptr || !busy_->load(std::memory_order_acquire);
    }

  private:
    void end() {
        if (!thread_.joinable()) return;
        if (idle()) {
            thread_.join();
        } else {
            thread_.detach();
        }
    }

    std::shared_ptr<std::atomic<bool>> busy_;
    std::thread thread_;
};

}  // namespace

std::unique_ptr<Background> make_background_thread() {
    return std::make_unique<BackgroundThread>();
}

}  // namespace rhizome::engine
