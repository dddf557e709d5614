#include "engine/moves.hpp"

#include <algorithm>

namespace rhizome::engine {
namespace {

using device::Tensor;
using recover::Move;

constexpr world::Tag move_tag{world::World::tag_max - 2};

std::vector<state::Value> values_of(const Move& move) {
    std::vector<state::Value> values;
    if (move.parameters) values.push_back(state::Value::parameter);
    if (move.moments) {
        values.push_back(state::Value::first_moment);
        values.push_back(state::Value::second_moment);
    }
    return values;
}

/// Where the state has that value of a chunk.
std::optional<Tensor> find(const WorkerState& state, ChunkRef chunk, state::Value value) {
    const OwnedState* const found = state.find_owned(chunk);
    if (found == nullptr) {
        return value == state::Value::parameter ? state.held(chunk) : std::nullopt;
    }
    switch (value) {
        case state::Value::parameter:
            return found->parameter;
        case state::Value::first_moment:
            return found->first_moment;
        case state::Value::second_moment:
            return found->second_moment;
    }
    ENSURE(false);
}

std::int64_t bytes_of_value(const LayerTable& table, ChunkRef chunk) {
    return table.elements_of(chunk) * bytes_of(table.at(chunk.tensor).spec.dtype);
}

/// What has arrived, and otherwise what was here.
class Values final : public ValueSource {
  public:
    using Arrived = std::map<std::pair<ChunkRef, state::Value>, std::span<const std::byte>>;

    Values(const Arrived& arrived, const WorkerState& state, device::Stream& stream)
        : arrived_{arrived}, state_{state}, stream_{stream} {}

    void read(ChunkRef chunk, state::Value value, std::span<std::byte> to) override {
        if (const auto found = arrived_.find({chunk, value}); found != arrived_.end()) {
            ENSURE(found->second.size() == to.size());
            std::copy(found->second.begin(), found->second.end(), to.begin());
            return;
        }
        const auto here = find(state_, chunk, value);
        ENSURE(here.has_value());
        stream_.download(to, *here);
        stream_.synchronize();
    }

  private:
    const Arrived& arrived_;
    const WorkerState& state_;
    device::Stream& stream_;
};

}  // namespace

MoveExchange::MoveExchange(Worker& worker, const std::vector<Move>& moves,
                           const OwnershipMap& owners)
    : worker_{worker} {
    const LayerTable& table = worker.network().table();
    const WorkerId self = worker.messenger().world().self();
    device::Stream& stream = worker.stream();
    const auto for_each_value = [&](const auto& use) {
        for (const Move& move : moves) {
            const WorkerId peer = move.from == self ? move.to : move.from;
            if (move.from != self && move.to != self) continue;
            const ChunkRef chunk = owners.chunks[move.chunk].chunk;
            for (const state::Value value : values_of(move)) {
                use(move, peer, chunk, value);
            }
        }
    };
    for_each_value([&](const Move& move, WorkerId peer, ChunkRef chunk, state::Value) {
        auto& bytes = move.from == self ? outgoing_[peer] : incoming_[peer];
        bytes.resize(bytes.size() + static_cast<std::size_t>(bytes_of_value(table, chunk)));
    });
    for (auto& [from, bytes] : incoming_) {
        const Tensor to = words_on_host(bytes);
        receipts_.push_back(worker.messenger().receive(from, move_tag, std::span{&to, 1}));
    }
    std::map<WorkerId, std::size_t> sent;
    std::map<WorkerId, std::size_t> received;
    for_each_value([&](const Move& move, WorkerId peer, ChunkRef chunk, state::Value value) {
        const auto size = static_cast<std::size_t>(bytes_of_value(table, chunk));
        if (move.from != self) {
            std::size_t& at = received[peer];
            arrived_[{chunk, value}] = std::span{incoming_[peer]}.subspan(at, size);
            at += size;
            return;
        }
        std::size_t& at = sent[peer];
        const auto from = find(worker.state(), chunk, value);
        ENSURE(from.has_value());
        stream.download(std::span{outgoing_[peer]}.subspan(at, size), *from);
        at += size;
    });
    for (auto& [to, bytes] : outgoing_) {
        const Tensor from = words_on_host(bytes);
        worker.messenger().send(to, move_tag, std::span{&from, 1}, stream.record(), nullptr);
    }
}

CommStatus MoveExchange::wait() {
    for (const Messenger::Receipt receipt : receipts_) {
        const CommStatus status = worker_.messenger().wait(receipt);
        if (status != CommStatus::ok) return status;
    }
    return worker_.messenger().drain();
}

void MoveExchange::fill(Assignment& next) {
    Values values{arrived_, worker_.state(), worker_.stream()};
    next.state.load(worker_.stream(), values, worker_.pulse());
}

}  // namespace rhizome::engine
