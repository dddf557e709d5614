#include "world/paced_world.hpp"

#include <algorithm>
#include <map>

namespace rhizome::world {
namespace {

class PacedWorld final : public World {
  public:
    PacedWorld(World& inner, const LinkPace& pace) : inner_{inner}, pace_{pace} {}

    [[nodiscard]] WorkerId self() const override { return inner_.self(); }
    [[nodiscard]] const std::vector<WorkerId>& members() const override { return inner_.members(); }
    [[nodiscard]] const Clock& clock() const override { return inner_.clock(); }

    [[nodiscard]] Ticket send(WorkerId to, Tag tag, std::span<const std::byte> bytes) override {
        Nanoseconds& free_at = link_free_at_.try_emplace(to, Nanoseconds{0}).first->second;
        const double seconds =
            pace_.bytes_per_s > 0 ? static_cast<double>(bytes.size()) / pace_.bytes_per_s : 0.0;
        free_at = std::max(free_at, clock().now()) + to_nanoseconds(seconds);
        const std::size_t place = take_place();
        messages_[place].due = free_at + to_nanoseconds(pace_.latency_s);
        messages_[place].to = to;
        messages_[place].tag = tag;
        messages_[place].bytes = bytes;
        waiting_.push_back(place);
        return Ticket{static_cast<std::int32_t>(place)};
    }

    [[nodiscard]] Ticket receive(WorkerId from, Tag tag, std::span<std::byte> bytes) override {
        const std::size_t place = take_place();
        messages_[place].inner = inner_.receive(from, tag, bytes);
        return Ticket{static_cast<std::int32_t>(place)};
    }

    [[nodiscard]] std::optional<CommStatus> poll(Ticket ticket) override {
        begin_due();
        Message& message = messages_[ticket.index()];
        if (!message.inner) return std::nullopt;
        const auto ended = inner_.poll(*message.inner);
        if (ended) {
            message = {};
            free_.push_back(ticket.index());
        }
        return ended;
    }

    void rest(Nanoseconds until) override {
        for (const std::size_t place : waiting_) until = std::min(until, messages_[place].due);
        inner_.rest(until);
        begin_due();
    }

    [[nodiscard]] Agreement agree(std::uint32_t flags, Nanoseconds deadline) override {
        while (!waiting_.empty() && clock().now() < deadline) rest(deadline);
        return inner_.agree(flags, deadline);
    }

    void revoke() override {
        inner_.revoke();
        // What had not left is begun now, only to be told so.
        for (const std::size_t place : waiting_) begin(messages_[place]);
        waiting_.clear();
    }

    [[nodiscard]] Epoch epoch() const override { return inner_.epoch(); }
    [[nodiscard]] CommStatus open_epoch(Nanoseconds deadline) override {
        link_free_at_.clear();
        return inner_.open_epoch(deadline);
    }
    [[nodiscard]] bool runs_short() const override { return inner_.runs_short(); }
    [[nodiscard]] CommStatus renew(Nanoseconds deadline) override { return inner_.renew(deadline); }

  private:
    struct Message {
        std::optional<Ticket> inner{};  // once it has begun
        Nanoseconds due{0};
        WorkerId to{0};
        Tag tag{0};
        std::span<const std::byte> bytes{};
    };

    std::size_t take_place() {
        if (free_.empty()) {
            free_.push_back(messages_.size());
            messages_.emplace_back();
        }
        const std::size_t place = free_.back();
        free_.pop_back();
        return place;
    }

    void begin(Message& message) {
        message.inner = inner_.send(message.to, message.tag, message.bytes);
    }

    /// In the order in which they were sent, as far as it matters: that of one link.
    void begin_due() {
        const Nanoseconds now = clock().now();
        std::erase_if(waiting_, [&](std::size_t place) {
            if (messages_[place].due > now) return false;
            begin(messages_[place]);
            return true;
        });
    }

    World& inner_;
    LinkPace pace_;
    std::map<WorkerId, Nanoseconds> link_free_at_;
    std::vector<Message> messages_;     // by ticket
    std::vector<std::size_t> free_;     // places
    std::vector<std::size_t> waiting_;  // places, in the order of sending
};

}  // namespace

std::unique_ptr<World> make_paced_world(World& inner, const LinkPace& pace) {
    return std::make_unique<PacedWorld>(inner, pace);
}

}  // namespace rhizome::world
