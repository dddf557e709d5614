// Messages between workers' tensors, beside the computation. A send leaves once the device has made
// its data; a receive says that there is room, and whoever needs the data waits for them.
//
// Every wait moves messages along, ends with the first status that is not ok, and has a deadline.
// Invariant: once a status was not ok, every later call gives that status, until the next epoch.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "engine/recorder.hpp"
#include "world/world.hpp"

namespace rhizome::engine {

/// Numbers on the host as what a message is made of: words of four bytes.
template <class Numbers>
[[nodiscard]] device::Tensor words_on_host(Numbers& numbers) {
    const auto bytes = std::as_writable_bytes(std::span{numbers});
    constexpr std::size_t word = 4;
    ENSURE(bytes.size() % word == 0);
    return {bytes.data(), Shape{static_cast<std::int64_t>(bytes.size() / word)}, DType::i32};
}

class Messenger {
  public:
    /// Nothing is waited for longer than `patience`. `recorder` may be null.
    Messenger(world::World& world, Nanoseconds patience, Recorder* recorder = nullptr)
        : world_{world}, patience_{patience}, recorder_{recorder} {}

    [[nodiscard]] world::World& world() { return world_; }
    [[nodiscard]] const world::World& world() const { return world_; }
    [[nodiscard]] Nanoseconds deadline() const { return world_.clock().now() + patience_; }

    /// Sends the tensors, one after the other, once `ready` has happened. `in_flight`, if any, is
    /// one higher until the tensors may be written again.
    void send(WorkerId to, world::Tag tag, std::span<const device::Tensor> tensors,
              std::shared_ptr<const device::Event> ready, std::int32_t* in_flight);

    /// Receives as many tensors; they must not be touched before wait(receipt) has said ok.
    using Receipt = std::size_t;
    [[nodiscard]] Receipt receive(WorkerId from, world::Tag tag,
                                  std::span<const device::Tensor> tensors);
    [[nodiscard]] CommStatus wait(Receipt receipt);

    /// Waits for the device.
    [[nodiscard]] CommStatus wait(const device::Event& event);
    /// Waits until a counter given to send() is 0 again.
    [[nodiscard]] CommStatus wait_until_sent(const std::int32_t& in_flight);
    /// Moves messages along, between two pieces of work of the host that take a while. No wait.
    void move_along();
    /// Waits until everything that was sent has left.
    [[nodiscard]] CommStatus drain();

    /// After the epoch has been revoked: forgets what has not left and waits until nothing is under
    /// way any more. Counters given to send() are not touched.
    [[nodiscard]] CommStatus settle(Nanoseconds deadline);
    /// Begins anew, after that, in another epoch.
    void begin_epoch() { status_ = CommStatus::ok; }

    [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }

  private:
    struct Outgoing {
        WorkerId to;
        world::Tag tag;
        std::vector<device::Tensor> tensors;
        std::shared_ptr<const device::Event> ready;
        std::int32_t* in_flight;
        std::vector<world::Ticket> tickets{};  // once it has left the device
        Nanoseconds begin{};                   // likewise, for the recorder
    };
    struct Incoming {
        WorkerId from;
        world::Tag tag;
        std::int64_t bytes = 0;
        std::vector<world::Ticket> tickets{};  // under way
        Nanoseconds begin{};                   // for the recorder
    };

    /// Starts what is ready, notices what has ended.
    void pump();
    void begin(Outgoing& message);
    /// True once it has ended. Notes a bad status.
    bool has_ended(world::Ticket ticket);
    bool all_ended(std::vector<world::Ticket>& tickets);
    bool has_arrived(Incoming& message);
    template <class Condition>
    [[nodiscard]] CommStatus wait_for(const Condition& condition, const device::Event* event,
                                      const Wait& what);
    [[nodiscard]] Nanoseconds next_look(Nanoseconds deadline, const device::Event* event) const;

    world::World& world_;
    Nanoseconds patience_;
    Recorder* recorder_;
    CommStatus status_ = CommStatus::ok;
    std::deque<Outgoing> waiting_;   // for the device, in order
    std::vector<Outgoing> leaving_;  // under way
    std::vector<Incoming> receipts_;
    std::vector<Receipt> free_receipts_;
    std::size_t receiving_ = 0;  // receipts that have not been waited for
    std::int64_t bytes_sent_ = 0;
};

}  // namespace rhizome::engine
