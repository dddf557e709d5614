#include "world/fake_post.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rhizome::world {

FakePost::FakePost(const FakeWorldConfig& config, FakeTurns& turns, FakeDraws& draws)
    : config_{config},
      turns_{turns},
      draws_{draws},
      boxes_(static_cast<std::size_t>(config.workers)),
      links_(boxes_.size() * boxes_.size()) {
    for (Box& each : boxes_) each.lost.resize(boxes_.size());
}

Ticket FakePost::send(WorkerId from, WorkerId to, Tag tag, std::span<const std::byte> bytes) {
    const Ticket ticket = begin(from, "send to", to, tag);
    if (box(from).revoked() || box(from).lost[to.index()]) {
        end(from, ticket, box(from).revoked() ? CommStatus::revoked : CommStatus::peer_lost);
        return ticket;
    }
    const Name name{box(from).epoch, tag};
    Link& way = link(from, to);
    Channel& channel = way.channels[name];
    way.free_at = std::max(way.free_at, turns_.now());
    if (config_.bytes_per_s > 0) {
        const double ns = static_cast<double>(bytes.size()) * 1e9 / config_.bytes_per_s;
        way.free_at += Nanoseconds{static_cast<Nanoseconds::rep>(std::ceil(ns))};
    }
    Nanoseconds arrival = way.free_at + draws_.between(config_.latency_min, config_.latency_max);
    if (!channel.messages.empty()) arrival = std::max(arrival, channel.messages.back()->arrival);
    way.last_arrival = std::max(way.last_arrival, arrival);

    const auto message = std::make_shared<Message>(Message{from, to, name, bytes, {}, arrival, {}});
    if (config_.sends == FakeSends::eager ||
        (config_.sends == FakeSends::drawn && draws_.chance(0.5))) {
        keep(*message);
        end(from, ticket, CommStatus::ok);
    } else {
        message->ticket = ticket;
    }
    channel.messages.push_back(message);
    turns_.at(arrival, [this, message] { arrive(*message); });
    return ticket;
}

Ticket FakePost::receive(WorkerId from, WorkerId to, Tag tag, std::span<std::byte> bytes) {
    const Ticket ticket = begin(to, "receive from", from, tag);
    if (box(to).revoked()) {
        end(to, ticket, CommStatus::revoked);
        return ticket;
    }
    const Name name{box(to).epoch, tag};
    link(from, to).channels[name].receives.push_back({ticket, bytes});
    match(from, to, name);
    // What had arrived before the loss is still there; nothing else will come.
    if (box(to).lost[from.index()] &&
        box(to).slots[ticket.index()].state == Slot::State::under_way) {
        link(from, to).channels.erase(name);
        end(to, ticket, CommStatus::peer_lost);
    }
    return ticket;
}

std::optional<CommStatus> FakePost::poll(WorkerId worker, Ticket ticket) {
    Box& mine = box(worker);
    ENSURE(ticket.index() < mine.slots.size());
    Slot& slot = mine.slots[ticket.index()];
    ENSURE(slot.state != Slot::State::free);
    if (slot.state != Slot::State::ended) return std::nullopt;
    if (slot.round == mine.round) --mine.news;
    slot.state = Slot::State::free;
    mine.free.push_back(ticket);
    return slot.status;
}

void FakePost::forget_news(WorkerId worker) {
    box(worker).news = 0;
    ++box(worker).round;
}

void FakePost::leave(WorkerId worker, FakeCut why) {
    for (std::int32_t index = 0; std::cmp_less(index, boxes_.size()); ++index) {
        const WorkerId peer{index};
        for (auto& [name, channel] : link(peer, worker).channels) channel.receives.clear();
        for (auto& [name, channel] : link(worker, peer).channels) cut(channel, why);
    }
}

void FakePost::lose_peer(WorkerId observer, WorkerId gone) {
    box(observer).lost[gone.index()] = true;
    for (auto& [name, channel] : link(gone, observer).channels) {
        std::erase_if(channel.messages, [](const std::shared_ptr<Message>& message) {
            message->lost = !message->arrived;
            return message->lost;
        });
        for (const Receive& receive : std::exchange(channel.receives, {})) {
            end(observer, receive.ticket, CommStatus::peer_lost);
        }
    }
    for (auto& [name, channel] : link(observer, gone).channels) {
        for (const auto& message : std::exchange(channel.messages, {})) {
            message->lost = true;
            if (message->ticket) end(observer, *message->ticket, CommStatus::peer_lost);
        }
    }
}

void FakePost::revoke(WorkerId worker, Epoch epoch) {
    Box& mine = box(worker);
    mine.revoked_epochs = std::max(mine.revoked_epochs, epoch.value() + 1);
    if (epoch.value() != mine.epoch) return;
    // A message is under way until poll() has told its end, so either end may be seen.
    for (Slot& slot : mine.slots) {
        if (slot.state == Slot::State::ended && slot.status == CommStatus::ok &&
            draws_.chance(0.5)) {
            slot.status = CommStatus::revoked;
        }
    }
    for (std::int32_t index = 0; std::cmp_less(index, boxes_.size()); ++index) {
        const WorkerId peer{index};
        for (auto& [name, channel] : link(peer, worker).channels) {
            if (name.first != mine.epoch) continue;
            for (const Receive& receive : std::exchange(channel.receives, {})) {
                end(worker, receive.ticket, CommStatus::revoked);
            }
        }
        for (auto& [name, channel] : link(worker, peer).channels) {
            if (name.first == mine.epoch) cut(channel, FakeCut::revoked);
        }
    }
    ++mine.news;
    turns_.wake(worker, FakeWait::rest);
}

void FakePost::open_epoch(WorkerId worker) {
    Box& mine = box(worker);
    ENSURE(untold(worker) == 0 && "poll() has told how everything ended");
    ++mine.epoch;
    mine.news = 0;
    for (std::int32_t index = 0; std::cmp_less(index, boxes_.size()); ++index) {
        auto& channels = link(WorkerId{index}, worker).channels;
        const auto end = channels.lower_bound(Name{mine.epoch, Tag{0}});
        for (auto old = channels.begin(); old != end; old = channels.erase(old)) {
            for (const auto& message : old->second.messages) message->lost = true;
        }
    }
}

std::int64_t FakePost::unreceived(WorkerId worker) const {
    std::size_t messages = 0;
    for (std::int32_t index = 0; std::cmp_less(index, boxes_.size()); ++index) {
        for (const auto& [name, channel] : link(WorkerId{index}, worker).channels) {
            messages += channel.messages.size();
        }
    }
    return static_cast<std::int64_t>(messages);
}

std::int64_t FakePost::untold(WorkerId worker) const {
    return std::count_if(box(worker).slots.begin(), box(worker).slots.end(),
                         [](const Slot& slot) { return slot.state != Slot::State::free; });
}

std::string FakePost::describe(WorkerId worker) const {
    std::string text;
    for (const Slot& slot : box(worker).slots) {
        if (slot.state != Slot::State::under_way) continue;
        text += ", " + std::string{slot.what} + " " + std::to_string(slot.peer.value()) + " tag " +
                std::to_string(slot.tag.value());
    }
    return text;
}

Ticket FakePost::begin(WorkerId worker, std::string_view what, WorkerId peer, Tag tag) {
    ENSURE(peer.index() < boxes_.size() && peer != worker);
    ENSURE(tag.value() <= World::tag_max);
    Box& mine = box(worker);
    if (mine.free.empty()) {
        mine.free.emplace_back(static_cast<std::int32_t>(mine.slots.size()));
        mine.slots.emplace_back();
    }
    const Ticket ticket = mine.free.back();
    mine.free.pop_back();
    Slot& slot = mine.slots[ticket.index()];
    slot.state = Slot::State::under_way;
    slot.what = what;
    slot.peer = peer;
    slot.tag = tag;
    return ticket;
}

void FakePost::end(WorkerId worker, Ticket ticket, CommStatus status) {
    Box& mine = box(worker);
    Slot& slot = mine.slots[ticket.index()];
    slot.state = Slot::State::ended;
    slot.status = status;
    slot.round = mine.round;
    ++mine.news;
    turns_.wake(worker, FakeWait::rest);
}

/// Makes the message independent of its sender.
void FakePost::keep(Message& message) {
    message.copy.assign(message.bytes.begin(), message.bytes.end());
    message.bytes = message.copy;
    message.ticket.reset();
}

void FakePost::arrive(Message& message) {
    if (message.lost) return;
    message.arrived = true;
    match(message.from, message.to, message.name);
}

void FakePost::match(WorkerId from, WorkerId to, const Name& name) {
    if (box(to).stopped) return;
    auto& channels = link(from, to).channels;
    const auto found = channels.find(name);
    ENSURE(found != channels.end());
    auto& [messages, receives] = found->second;
    while (!messages.empty() && !receives.empty() && messages.front()->arrived) {
        const Message& message = *messages.front();
        if (message.ticket && box(from).stopped) return;
        const Receive receive = receives.front();
        ENSURE(message.bytes.size() == receive.bytes.size());
        std::copy(message.bytes.begin(), message.bytes.end(), receive.bytes.begin());
        if (message.ticket) end(from, *message.ticket, CommStatus::ok);
        end(to, receive.ticket, CommStatus::ok);
        messages.pop_front();
        receives.pop_front();
    }
    if (messages.empty() && receives.empty()) channels.erase(found);
}

/// Decides which messages of a sender that is cut off still arrive.
void FakePost::cut(Channel& channel, FakeCut why) {
    bool goes_on = true;
    std::erase_if(channel.messages, [&](const std::shared_ptr<Message>& message) {
        goes_on = goes_on && survives(*message, why);
        message->lost = !goes_on;
        if (why == FakeCut::revoked && message->ticket) {
            end(message->from, *message->ticket, CommStatus::revoked);
        }
        if (goes_on && message->ticket) keep(*message);
        return message->lost;
    });
}

bool FakePost::survives(const Message& message, FakeCut why) {
    const bool bytes_alive = !message.ticket || why == FakeCut::killed || why == FakeCut::revoked;
    if (!bytes_alive) return false;
    if (message.arrived) return true;
    const bool abrupt = why == FakeCut::killed || why == FakeCut::threw;
    return (!message.ticket && !abrupt) || draws_.chance(0.5);
}

}  // namespace rhizome::world
