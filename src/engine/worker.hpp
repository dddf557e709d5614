// One worker of a run. It carries out its list of instructions and knows nothing else: not what
// style made the list, nor what network the layers form. With a plan for one worker it trains
// alone.
//
// A lost peer, a revoked epoch or a missed deadline comes back as a status. What this worker owns
// is then the state after committed_steps() steps, on which all who live agree; parameters that it
// only holds may be older. The worker must not be used again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "engine/chunk_exchange.hpp"
#include "engine/messenger.hpp"
#include "engine/parts.hpp"
#include "engine/program.hpp"
#include "engine/run_plan.hpp"
#include "engine/stage.hpp"
#include "engine/step_result.hpp"
#include "engine/turn.hpp"
#include "engine/votes.hpp"
#include "engine/worker_state.hpp"
#include "world/world.hpp"

namespace rhizome::engine {

enum class Begin : std::uint8_t {
    initial,  // with the initial state
    loaded    // with one that will be loaded
};

struct WorkerConfig {
    std::uint64_t seed;
    std::int32_t rows;  // samples per microbatch
    model::OptimizerConfig optimizer;
    Nanoseconds patience;  // no wait for a peer or the device is longer
    Begin begin = Begin::initial;
    /// Called before every instruction and after every layer; shows that the worker is alive.
    std::function<void()> pulse = [] {};
};

/// Only with status ok is the rest worth anything.
struct StepEnd {
    CommStatus status;
    StepResult result;
    Votes votes;  // what all have voted for
};

struct EvaluationEnd {
    CommStatus status;
    double loss;  // mean
};

/// Bytes of memory.
struct MemoryPlan {
    std::int64_t held;       // from the first step to the end
    std::int64_t workspace;  // of one operation, at most

    [[nodiscard]] std::int64_t total() const { return held + workspace; }
};

class Worker {
  public:
    /// All references must outlive the worker; the plan's workers are the world's members.
    /// `validation` may be null if the plan has no evaluation.
    Worker(device::Device& device, const model::Network& network, const data::Dataset& train,
           const data::Dataset* validation, world::World& world, const RunPlan& plan,
           const WorkerConfig& config);
    /// To be asked before there is a worker.
    [[nodiscard]] static MemoryPlan plan_memory(const model::Network& network,
                                                std::span<const TensorSpec> fields,
                                                const RunPlan& plan, WorkerId self,
                                                std::int32_t rows);

    /// With the initial state.
    void initialize();
    /// In place of the initial state: that after so many steps. Throws what `source` throws; the
    /// worker is of no use then until another one has been loaded.
    void load(ValueSource& source, std::int32_t steps);

    /// One step. All workers must ask for the same one. Throws DivergedError, on all workers, and
    /// leaves parameters and moments alone, when loss or gradient is not finite.
    [[nodiscard]] StepEnd run_step(Step step, Votes votes);

    /// Mean loss of the first samples of the validation set, in order, without dropout: as many
    /// microbatches as the plan says. Throws DivergedError if it is not finite.
    [[nodiscard]] EvaluationEnd evaluate();

    /// Throws DivergedError, on all workers, if a parameter of anybody is not finite. A step's
    /// update can do that without its loss and gradient, which are those before it, showing it.
    [[nodiscard]] CommStatus expect_finite_parameters();

    /// An agreement outside of steps; all workers must come to it.
    [[nodiscard]] Voted agree(Votes votes);

    /// Gives up: ends the epoch for all and takes part in the agreement that the others come to,
    /// so that nobody waits for this worker.
    void abandon();

    [[nodiscard]] const RunPlan& plan() const { return plan_; }
    [[nodiscard]] std::int32_t committed_steps() const { return committed_steps_; }
    /// Parameters and moments of the chunks owned here.
    [[nodiscard]] const WorkerState& state() const { return state_; }
    [[nodiscard]] device::Stream& stream() { return *stream_; }
    [[nodiscard]] Messenger& messenger() { return messenger_; }

  private:
    [[nodiscard]] Workbench bench(Parts& parts);
    void add_stages(device::Device& device, std::span<const TensorSpec> fields);

    const model::Network& network_;
    const data::Dataset& train_;
    const data::Dataset* validation_;
    WorkerConfig config_;
    RunPlan plan_;
    data::Sampler sampler_;
    std::unique_ptr<device::Stream> stream_;
    Messenger messenger_;
    Program step_;
    Program evaluation_;
    std::vector<std::unique_ptr<Stage>> stages_;  // by stage of the pipeline; null if elsewhere
    WorkerState state_;
    ChunkExchange exchange_;
    Parts step_parts_;
    std::optional<Parts> evaluation_parts_;
    std::int32_t committed_steps_ = 0;
    bool gave_up_ = false;  // the last agreement had no commit
    device::Memory scalars_;
    device::Tensor losses_;   // by microbatch
    device::Tensor squares_;  // by chunk whose part of the norm is made here
};

}  // namespace rhizome::engine
