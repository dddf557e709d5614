#include "engine/state_digest.hpp"

#include <algorithm>

#include "core/digest.hpp"

namespace rhizome::engine {
namespace {

constexpr std::size_t hex_digits = 32;
constexpr world::Tag tag{world::World::tag_max};

std::vector<std::size_t> chunks_of(const OwnershipMap& owners, WorkerId worker) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < owners.chunks.size(); ++i) {
        if (owners.chunks[i].owners.front() == worker) places.push_back(i);
    }
    return places;
}

/// One after the other.
std::string digests_made_here(Worker& worker, WorkerId self) {
    std::string all;
    for (const OwnedState& owned : worker.state().owned()) {
        if (worker.plan().owners.chunks[owned.place].owners.front() != self) continue;
        all += digest_of_chunk(worker.stream(), owned.parameter, owned.first_moment,
                               owned.second_moment);
    }
    return all;
}

}  // namespace

std::string chunk_name(const LayerTable& table, ChunkRef chunk) {
    return table.name_of(chunk.tensor) + "#" + std::to_string(chunk.chunk);
}

std::string digest_of_chunk(device::Stream& stream, const device::Tensor& parameter,
                            const device::Tensor& first_moment,
                            const device::Tensor& second_moment) {
    Digest digest;
    std::vector<std::byte> bytes;
    for (const device::Tensor& values : {parameter, first_moment, second_moment}) {
        bytes.resize(static_cast<std::size_t>(values.bytes()));
        stream.download(bytes, values);
        stream.synchronize();
        digest.add(bytes);
    }
    return digest.hex();
}

std::string digest_of(std::span<const ChunkDigest> chunks) {
    Digest digest;
    for (const ChunkDigest& chunk : chunks) {
        digest.add_text(chunk.name);
        digest.add_text(chunk.hex);
    }
    return digest.hex();
}

namespace {

/// All of them, on the first member. Messages end in `texts`, which must outlive them.
CommStatus gather(Worker& worker, const LayerTable& table, std::vector<std::string>& texts,
                  std::vector<ChunkDigest>& all) {
    const OwnershipMap& owners = worker.plan().owners;
    Messenger& messenger = worker.messenger();
    const WorkerId self = messenger.world().self();
    const WorkerId reader = messenger.world().members().front();
    std::string& mine = texts.emplace_back(digests_made_here(worker, self));
    if (self != reader) {
        if (!mine.empty()) {
            const device::Tensor message = words_on_host(mine);
            messenger.send(reader, tag, std::span{&message, 1}, worker.stream().record(), nullptr);
        }
        return messenger.drain();
    }
    all.resize(owners.chunks.size());
    for (const WorkerId sender : messenger.world().members()) {
        const std::vector<std::size_t> places = chunks_of(owners, sender);
        if (places.empty()) continue;
        if (sender != self) {
            std::string& text = texts.emplace_back(places.size() * hex_digits, ' ');
            const device::Tensor message = words_on_host(text);
            const CommStatus status =
                messenger.wait(messenger.receive(sender, tag, std::span{&message, 1}));
            if (status != CommStatus::ok) return status;
        }
        const std::string& digests = sender == self ? mine : texts.back();
        for (std::size_t i = 0; i < places.size(); ++i) {
            all[places[i]] = {chunk_name(table, owners.chunks[places[i]].chunk),
                              digests.substr(i * hex_digits, hex_digits)};
        }
    }
    return CommStatus::ok;
}

}  // namespace

DigestEnd gather_digests(Worker& worker, const LayerTable& table) {
    std::vector<std::string> texts;
    texts.reserve(worker.messenger().world().members().size() + 1);
    DigestEnd end{CommStatus::ok, {}};
    end.status = gather(worker, table, texts, end.chunks);
    if (end.status != CommStatus::ok) {
        (void)worker.abandon();
        end.chunks.clear();
    }
    return end;
}

}  // namespace rhizome::engine
