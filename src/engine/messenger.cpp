#include "engine/messenger.hpp"

#include <algorithm>

namespace rhizome::engine {

using device::Tensor;

namespace {

// How long to rest while a device works that does not know when it will be done.
constexpr Nanoseconds look_interval = std::chrono::microseconds{20};

/// Devices here have their memory in the host's address space.
std::span<std::byte> host_bytes(const Tensor& tensor) {
    return {tensor.data, static_cast<std::size_t>(tensor.bytes())};
}

std::int64_t bytes_of(std::span<const Tensor> tensors) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.bytes();
    return bytes;
}

}  // namespace

void Messenger::begin(Outgoing& message) {
    if (recorder_ != nullptr) message.begin = world_.clock().now();
    for (const Tensor& tensor : message.tensors) {
        message.tickets.push_back(world_.send(message.to, message.tag, host_bytes(tensor)));
    }
    bytes_sent_ += bytes_of(message.tensors);
}

void Messenger::send(WorkerId to, world::Tag tag, std::span<const Tensor> tensors,
                     std::shared_ptr<const device::Event> ready, std::int32_t* in_flight) {
    if (status_ != CommStatus::ok) return;
    if (in_flight != nullptr) ++*in_flight;
    waiting_.push_back({to, tag, {tensors.begin(), tensors.end()}, std::move(ready), in_flight});
    pump();
}

Messenger::Receipt Messenger::receive(WorkerId from, world::Tag tag,
                                      std::span<const Tensor> tensors) {
    if (free_receipts_.empty()) {
        free_receipts_.push_back(receipts_.size());
        receipts_.push_back({from, tag});
    }
    const Receipt receipt = free_receipts_.back();
    free_receipts_.pop_back();
    ++receiving_;
    Incoming& message = receipts_[receipt];
    message.from = from;
    message.tag = tag;
    message.bytes = bytes_of(tensors);
    if (status_ != CommStatus::ok) return receipt;
    if (recorder_ != nullptr) message.begin = world_.clock().now();
    for (const Tensor& tensor : tensors) {
        message.tickets.push_back(world_.receive(from, tag, host_bytes(tensor)));
    }
    return receipt;
}

bool Messenger::has_ended(world::Ticket ticket) {
    const auto ended = world_.poll(ticket);
    if (ended && *ended != CommStatus::ok) status_ = *ended;
    return ended.has_value();
}

bool Messenger::all_ended(std::vector<world::Ticket>& tickets) {
    while (!tickets.empty() && status_ == CommStatus::ok && has_ended(tickets.back())) {
        tickets.pop_back();
    }
    return tickets.empty();
}

bool Messenger::has_arrived(Incoming& message) {
    if (message.tickets.empty()) return true;
    if (!all_ended(message.tickets)) return false;
    if (recorder_ != nullptr && status_ == CommStatus::ok) {
        recorder_->transfer({Direction::receive, message.from, message.tag.value(), message.bytes},
                            {message.begin, world_.clock().now()});
    }
    return true;
}

void Messenger::pump() {
    while (!waiting_.empty() && status_ == CommStatus::ok && waiting_.front().ready->done()) {
        begin(waiting_.front());
        leaving_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
    std::erase_if(leaving_, [this](Outgoing& message) {
        if (!all_ended(message.tickets)) return false;
        if (message.in_flight != nullptr) --*message.in_flight;
        if (recorder_ != nullptr && status_ == CommStatus::ok) {
            recorder_->transfer(
                {Direction::send, message.to, message.tag.value(), bytes_of(message.tensors)},
                {message.begin, world_.clock().now()});
        }
        return true;
    });
    if (recorder_ == nullptr) return;
    // Nobody else asks before somebody waits for them, which may be much later.
    for (Incoming& message : receipts_) static_cast<void>(has_arrived(message));
}

void Messenger::move_along() {
    if (status_ != CommStatus::ok || (receiving_ == 0 && waiting_.empty() && leaving_.empty())) {
        return;
    }
    pump();
    world_.rest(world_.clock().now());
}

Nanoseconds Messenger::next_look(Nanoseconds deadline, const device::Event* event) const {
    for (const device::Event* awaited :
         {event, waiting_.empty() ? nullptr : waiting_.front().ready.get()}) {
        if (awaited == nullptr) continue;
        deadline =
            std::min(deadline, awaited->due().value_or(world_.clock().now() + look_interval));
    }
    return deadline;
}

template <class Condition>
CommStatus Messenger::wait_for(const Condition& condition, const device::Event* event,
                               const Wait& what) {
    const Nanoseconds begin = world_.clock().now();
    const Nanoseconds end = begin + patience_;
    bool rested = false;
    while (true) {
        pump();
        if (status_ != CommStatus::ok) break;
        const bool met = condition();  // may find a bad end, which counts more
        if (status_ != CommStatus::ok || met) break;
        if (world_.clock().now() >= end) {
            status_ = CommStatus::timed_out;
            break;
        }
        world_.rest(next_look(end, event));
        rested = true;
    }
    if (recorder_ != nullptr && rested) recorder_->wait(what, {begin, world_.clock().now()});
    return status_;
}

CommStatus Messenger::wait(Receipt receipt) {
    const WorkerId from = receipts_[receipt].from;
    const CommStatus status = wait_for([&] { return has_arrived(receipts_[receipt]); }, nullptr,
                                       {Awaited::message, from});
    if (status == CommStatus::ok) {
        free_receipts_.push_back(receipt);
        --receiving_;
    }
    return status;
}

CommStatus Messenger::wait(const device::Event& event) {
    return wait_for([&] { return event.done(); }, &event, {Awaited::device});
}

CommStatus Messenger::wait_until_sent(const std::int32_t& in_flight) {
    return wait_for([&] { return in_flight == 0; }, nullptr, {Awaited::buffer});
}

CommStatus Messenger::settle(Nanoseconds deadline) {
    std::vector<world::Ticket> under_way;
    for (const Outgoing& message : leaving_) {
        under_way.insert(under_way.end(), message.tickets.begin(), message.tickets.end());
    }
    for (const Incoming& message : receipts_) {
        under_way.insert(under_way.end(), message.tickets.begin(), message.tickets.end());
    }
    waiting_.clear();
    leaving_.clear();
    receipts_.clear();
    free_receipts_.clear();
    receiving_ = 0;
    while (true) {
        std::erase_if(under_way,
                      [this](world::Ticket ticket) { return world_.poll(ticket).has_value(); });
        if (under_way.empty()) return CommStatus::ok;
        if (world_.clock().now() >= deadline) return CommStatus::timed_out;
        world_.rest(deadline);
    }
}

CommStatus Messenger::drain() {
    return wait_for([&] { return waiting_.empty() && leaving_.empty(); }, nullptr,
                    {Awaited::sends});
}

}  // namespace rhizome::engine
