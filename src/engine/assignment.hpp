// What one worker has to do under one plan, and the memory for it: its instructions, made ready,
// its stages, what it keeps from step to step, bundles and parts. A new plan is a new assignment;
// until all have agreed that it is complete, the state in the old one is what counts.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/chunk_exchange.hpp"
#include "engine/parts.hpp"
#include "engine/program.hpp"
#include "engine/run_plan.hpp"
#include "engine/stage.hpp"
#include "engine/worker_state.hpp"

namespace rhizome::engine {

/// Bytes of memory.
struct MemoryPlan {
    std::int64_t held;       // from the first step to the end
    std::int64_t workspace;  // of one operation, at most

    [[nodiscard]] std::int64_t total() const { return held + workspace; }
};

class Assignment {
  public:
    /// Device, network and stream must outlive it. `fields` are those of the training samples, of
    /// which a microbatch has `rows`.
    Assignment(device::Device& device, device::Stream& stream, const model::Network& network,
               std::span<const TensorSpec> fields, RunPlan its_plan, WorkerId self,
               std::int32_t rows);
    ~Assignment() = default;
    Assignment(const Assignment&) = delete;
    Assignment& operator=(const Assignment&) = delete;

    /// To be asked before there is one.
    [[nodiscard]] static MemoryPlan plan_memory(const model::Network& network,
                                                std::span<const TensorSpec> fields,
                                                const RunPlan& plan, WorkerId self,
                                                std::int32_t rows);

    /// By lane of the step: whether all stages here have its sum, in subtrees that none of them
    /// has added to more. No lane where no stage is.
    [[nodiscard]] std::vector<bool> lanes_done() const;
    /// Frees the memory of microbatches: only the state and complete lanes are still needed. The
    /// device must have nothing left to do.
    void drop_memory();
    /// Takes the lanes that the plan keeps from the one before it, which has the same stages, or
    /// none any more.
    void take_lanes(device::Stream& stream, Assignment& before);

    const RunPlan plan;
    const Program step;
    std::optional<Program> rest;  // of the first step, if lanes are kept
    const Program evaluation;
    std::vector<std::unique_ptr<Stage>> stages{};  // by stage of the pipeline; null if elsewhere
    WorkerState state;
    ChunkExchange exchange;
    Parts step_parts;
    std::optional<Parts> evaluation_parts{};
    device::Tensor losses{};             // of the step, by microbatch
    device::Tensor evaluation_losses{};  // by microbatch
    device::Tensor squares{};            // by chunk whose part of the norm is made here

  private:
    void add_stages(device::Device& device, device::Stream& stream, const model::Network& network,
                    std::span<const TensorSpec> fields, WorkerId self, std::int32_t rows);

    device::Memory scalars_{};  // of losses and squares
};

}  // namespace rhizome::engine
