// A world of one: there is nobody to send to, and an agreement is with oneself.
#include <thread>

#include "world/world.hpp"

namespace rhizome::world {
namespace {

class SoloWorld final : public World {
  public:
    [[nodiscard]] WorkerId self() const override { return members_.front(); }
    [[nodiscard]] const std::vector<WorkerId>& members() const override { return members_; }
    [[nodiscard]] const Clock& clock() const override { return clock_; }

    [[nodiscard]] Ticket send(WorkerId, Tag, std::span<const std::byte>) override {
        ENSURE(false && "a world of one sends nothing");
        return Ticket{0};
    }
    [[nodiscard]] Ticket receive(WorkerId, Tag, std::span<std::byte>) override {
        ENSURE(false && "a world of one receives nothing");
        return Ticket{0};
    }
    [[nodiscard]] std::optional<CommStatus> poll(Ticket) override { return std::nullopt; }
    void rest(Nanoseconds until) override { std::this_thread::sleep_for(until - clock_.now()); }
    [[nodiscard]] Agreement agree(std::uint32_t flags, Nanoseconds) override {
        return {CommStatus::ok, flags};
    }
    void revoke() override {}
    [[nodiscard]] Epoch epoch() const override { return epoch_; }
    [[nodiscard]] CommStatus open_epoch(Nanoseconds) override {
        epoch_ = Epoch{epoch_.value() + 1};
        return CommStatus::ok;
    }
    [[nodiscard]] bool runs_short() const override { return false; }
    [[nodiscard]] CommStatus renew(Nanoseconds) override { return CommStatus::ok; }

  private:
    std::vector<WorkerId> members_{WorkerId{0}};
    Epoch epoch_{0};
    SteadyClock clock_;
};

}  // namespace

std::unique_ptr<World> make_solo_world() { return std::make_unique<SoloWorld>(); }

}  // namespace rhizome::world
