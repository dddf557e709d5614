// The end of a step, chunk by chunk: lane sums to the chunks' owners, their sum in the one order,
// new parameters to the holders. What travels between two workers is one bundle: the pieces in the
// order of uses and chunks, without gaps, which both ends read off the same plan.
//
// Invariant: nothing here touches parameters or moments before the step is committed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"
#include "engine/worker_state.hpp"
#include "model/optimizer.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::engine {

class ChunkExchange {
  public:
    /// The sum over a subtree of lanes that a stage of this worker computed.
    using LocalSum = std::function<const model::TensorSet&(StageId, LaneRange)>;

    /// All references must outlive it. `program` is the list of instructions of worker `self`.
    ChunkExchange(device::Device& device, const LayerTable& table, const RunShape& shape,
                  const OwnershipMap& owners, WorkerId self, const WorkerState& state,
                  const std::vector<schedule::Instruction>& program);

    /// Device memory that its bundles take.
    [[nodiscard]] static std::int64_t planned_bytes(
        const LayerTable& table, const RunShape& shape, const OwnershipMap& owners, WorkerId self,
        const std::vector<schedule::Instruction>& program);

    /// The bundle of an instruction that sends or receives sums or parameters.
    [[nodiscard]] device::Tensor bundle_of(const schedule::Instruction& what) const;

    /// Before a send_sum or send_parameters: fills the bundle.
    void pack(device::Stream& stream, const schedule::Instruction& what, const LocalSum& local);
    /// After a receive_parameters: puts the parameters where the worker's layers read them.
    void unpack(device::Stream& stream, const schedule::Instruction& what);

    /// Adds up the gradient of every owned chunk, ties included, once all sums are there. Lane sums
    /// and bundles are used up by it.
    void add_up(device::Stream& stream, const LocalSum& local);
    /// Sums of squares of these chunks' gradients, as places in the ownership map; `to` f64, one
    /// each.
    void squares(device::Stream& stream, std::span<const std::size_t> chunks, device::Tensor to);
    /// The optimizer, on every owned chunk.
    void update(device::Stream& stream, const model::OptimizerConfig& optimizer, Step step,
                double norm);

  private:
    /// A piece of a bundle: a chunk's gradient at one use, or its parameters (use = owner).
    struct Piece {
        TensorRef use;
        ChunkRef chunk;
        device::Tensor tensor{};
    };
    struct Bundle {
        std::vector<Piece> pieces;
        device::Memory memory;
        device::Tensor whole;
    };
    /// A subtree's part of a gradient: in a bundle, or in a stage of this worker.
    struct Leaf {
        LaneRange lanes;
        std::optional<StageId> stage;
        device::Tensor received;
    };
    struct UseSum {
        TensorRef use;
        std::vector<Leaf> leaves;
    };
    struct ChunkSum {
        ChunkRef chunk;
        std::vector<UseSum> uses;  // the owner's first
        device::Tensor gradient;   // after add_up
    };

    using Key = std::tuple<schedule::Kind, StageId, LaneRange, std::optional<WorkerId>>;

    [[nodiscard]] static Key key_of(const schedule::Instruction& what);
    [[nodiscard]] static std::vector<Piece> pieces_of(const LayerTable& table,
                                                      const RunShape& shape,
                                                      const OwnershipMap& owners, WorkerId self,
                                                      const schedule::Instruction& what);
    void add_bundle(device::Device& device, std::vector<Piece> pieces,
                    const schedule::Instruction& what);
    void plan_sum(const RunShape& shape, WorkerId self, const OwnedState& owned);
    [[nodiscard]] device::Tensor add_tree(device::Stream& stream, const UseSum& sum, ChunkRef chunk,
                                          LaneRange lanes, const LocalSum& local) const;

    const LayerTable& table_;
    const WorkerState& state_;
    std::int32_t lanes_;
    std::map<Key, Bundle> bundles_;
    std::vector<ChunkSum> sums_;  // by owned chunk, as in WorkerState::owned
};

}  // namespace rhizome::engine
