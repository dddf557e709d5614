#include "device/paced.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "device/stream_on_top.hpp"

namespace rhizome::device {
namespace {

void sleep_until(const Clock& clock, Nanoseconds time) {
    for (Nanoseconds now = clock.now(); now < time; now = clock.now()) {
        std::this_thread::sleep_for(time - now);
    }
}

class PacedEvent final : public Event {
  public:
    PacedEvent(std::shared_ptr<const Event> inner, Nanoseconds due, const Clock& clock)
        : inner_{std::move(inner)}, due_{due}, clock_{clock} {}

    [[nodiscard]] bool done() const override { return clock_.now() >= due_ && inner_->done(); }
    void wait() const override {
        inner_->wait();
        sleep_until(clock_, due_);
    }
    [[nodiscard]] std::optional<Nanoseconds> due() const override { return due_; }

    [[nodiscard]] const Event& inner() const { return *inner_; }
    [[nodiscard]] Nanoseconds time() const { return due_; }

  private:
    std::shared_ptr<const Event> inner_;
    Nanoseconds due_;
    const Clock& clock_;
};

class PacedStream final : public StreamOnTop {
  public:
    PacedStream(std::unique_ptr<Stream> inner, Pace pace, const Clock& clock)
        : StreamOnTop{std::move(inner)}, pace_{std::move(pace)}, clock_{clock} {}

    void begin(const Work& work) override {
        inner().begin(work);
        free_at_ = std::max(free_at_, clock_.now()) + time_of(work);
    }
    [[nodiscard]] std::shared_ptr<const Event> record() override {
        return std::make_shared<PacedEvent>(inner().record(), std::max(free_at_, clock_.now()),
                                            clock_);
    }
    void wait(const Event& event) override {
        // The inner stream knows only events of its own device.
        const auto* paced = dynamic_cast<const PacedEvent*>(&event);
        inner().wait(paced != nullptr ? paced->inner() : event);
        if (paced != nullptr) free_at_ = std::max(free_at_, paced->time());
    }
    void synchronize() override {
        inner().synchronize();
        sleep_until(clock_, free_at_);
    }

  private:
    [[nodiscard]] Nanoseconds time_of(const Work& work) const {
        switch (work.part) {
            case Work::Part::forward:
                return to_nanoseconds(pace_.layers[work.layer.index()].forward_s);
            case Work::Part::backward_input:
                return to_nanoseconds(pace_.layers[work.layer.index()].backward_input_s);
            case Work::Part::backward_weight:
                return to_nanoseconds(pace_.layers[work.layer.index()].backward_weight_s);
            case Work::Part::update:
                return to_nanoseconds(pace_.update_s_per_element *
                                      static_cast<double>(work.elements));
            case Work::Part::other:
                return Nanoseconds{0};
        }
        return Nanoseconds{0};
    }

    Pace pace_;
    const Clock& clock_;
    Nanoseconds free_at_{0};  // when the accelerator is through with what it has been given
};

class PacedDevice final : public Device {
  public:
    PacedDevice(Device& inner, Pace pace, const Clock& clock)
        : inner_{inner}, pace_{std::move(pace)}, clock_{clock} {}

    [[nodiscard]] Memory allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
        return std::make_unique<PacedStream>(inner_.make_stream(), pace_, clock_);
    }
    /// That of the inner device: the same bits.
    [[nodiscard]] std::string fingerprint() const override { return inner_.fingerprint(); }

  private:
    Device& inner_;
    Pace pace_;
    const Clock& clock_;
};

}  // namespace

std::unique_ptr<Device> make_paced_device(Device& inner, const Pace& pace, const Clock& clock) {
    return std::make_unique<PacedDevice>(inner, pace, clock);
}

}  // namespace rhizome::device
