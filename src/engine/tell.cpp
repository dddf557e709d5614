#include "engine/tell.hpp"

namespace rhizome::engine {

Told tell_all(Worker& worker, std::int32_t number) {
    constexpr world::Tag tag{world::World::tag_max};
    Messenger& messenger = worker.messenger();
    const world::World& world = messenger.world();
    const WorkerId speaker = world.members().front();
    const device::Tensor message{reinterpret_cast<std::byte*>(&number), Shape{1}, DType::i32};
    if (world.self() != speaker) {
        const CommStatus status =
            messenger.wait(messenger.receive(speaker, tag, std::span{&message, 1}));
        return {status, number};
    }
    for (const WorkerId member : world.members()) {
        if (member == speaker) continue;
        messenger.send(member, tag, std::span{&message, 1}, worker.stream().record(), nullptr);
    }
    return {messenger.drain(), number};
}

}  // namespace rhizome::engine
