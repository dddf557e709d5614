#include "engine/tell.hpp"

namespace rhizome::engine {

Told tell_all(Worker& worker, std::int32_t number) {
    constexpr world::Tag tag{world::World::tag_max};
    Messenger& messenger = worker.messenger();
    const world::World& world = messenger.world();
    const WorkerId speaker = world.members().front();
    const device::Tensor message{reinterpret_cast<std::byte*>(&number), Shape{1}, DType::i32};
    // Nobody may write to `number` once it is gone.
    const auto end = [&](CommStatus status) {
        if (status != CommStatus::ok) (void)worker.abandon();
        return Told{status, number};
    };
    if (world.self() != speaker) {
        return end(messenger.wait(messenger.receive(speaker, tag, std::span{&message, 1})));
    }
    for (const WorkerId member : world.members()) {
        if (member == speaker) continue;
        messenger.send(member, tag, std::span{&message, 1}, worker.stream().record(), nullptr);
    }
    return end(messenger.drain());
}

}  // namespace rhizome::engine
