// One worker of a run. It carries out its list of instructions and knows nothing else: not what
// style made the list, nor what network the layers form. With a plan for one worker it trains
// alone.
//
// A lost peer, a revoked epoch or a missed deadline comes back as a status. What this worker owns
// is then the state after committed_steps() steps, on which all who live agree; parameters that it
// only holds may be older. It can be used again once it has a new assignment in a new epoch
// (engine/repair.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "engine/assignment.hpp"
#include "engine/fault_point.hpp"
#include "engine/messenger.hpp"
#include "engine/recorder.hpp"
#include "engine/run_plan.hpp"
#include "engine/step_result.hpp"
#include "engine/turn.hpp"
#include "engine/votes.hpp"
#include "recover/survey.hpp"
#include "world/world.hpp"

namespace rhizome::engine {

/// What a worker's next assignment has in it.
enum class Adopt : std::uint8_t {
    filled,  // the state after the same steps
    empty    // nothing: it will be loaded or initialized
};

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
    Recorder* recorder = nullptr;  // of what this worker does; must outlive it
    Probe probe{};                 // where faults happen; may be empty
};

struct StepEnd {
    CommStatus status;
    bool committed;  // the step counts, be the status what it is
    // --- only if it is ok or the step committed ---
    StepResult result;
    Votes votes;  // what all have voted for
};

struct EvaluationEnd {
    CommStatus status;
    double loss;  // mean
};

class Worker {
  public:
    /// All references must outlive the worker; the plan's workers are the world's members.
    /// `validation` may be null if the plan has no evaluation.
    Worker(device::Device& device, const model::Network& network, const data::Dataset& train,
           const data::Dataset* validation, world::World& world, const RunPlan& plan,
           const WorkerConfig& config);
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
    /// Likewise, about flags of the caller's own, not all of them 0. revoked: somebody gave up.
    [[nodiscard]] world::Agreement agree_on_flags(std::uint32_t flags);

    /// Gives up, once in an epoch: ends it for all, takes part in the agreement that the others
    /// come to, so that nobody waits for this worker, and waits until no message is under way.
    /// Whoever sent or received memory of its own calls it before that goes. timed_out: the worker
    /// has lost touch with the others and can only leave.
    CommStatus abandon();
    /// Opens the next epoch, after giving up.
    [[nodiscard]] CommStatus open_epoch(Nanoseconds deadline);

    /// Makes further epochs possible (World::renew), between two steps; all workers call it.
    [[nodiscard]] CommStatus renew();

    /// What it has of the state.
    [[nodiscard]] recover::Report report() const;
    /// Another one, without content, for the members of the epoch. Frees what the present one has
    /// beside its state, and the lanes that the plan keeps.
    [[nodiscard]] std::unique_ptr<Assignment> make_next_assignment(const RunPlan& plan);
    /// What it goes on with. Lanes that its plan keeps come from the assignment before it.
    void adopt(std::unique_ptr<Assignment> assignment, Adopt content);
    /// What it has counts no more; it needs to be loaded or initialized.
    void forget_state() { has_state_ = false; }

    /// Tells the probe where the worker is.
    void reach(Phase phase) const {
        if (config_.probe) config_.probe({.phase = phase, .step = committed_steps_});
    }

    [[nodiscard]] const RunPlan& plan() const { return assignment_->plan; }
    [[nodiscard]] std::int32_t committed_steps() const { return committed_steps_; }
    /// Parameters and moments of the chunks owned here.
    [[nodiscard]] const WorkerState& state() const { return assignment_->state; }
    [[nodiscard]] device::Stream& stream() { return *stream_; }
    [[nodiscard]] const model::Network& network() const { return network_; }
    [[nodiscard]] const std::function<void()>& pulse() const { return config_.pulse; }
    [[nodiscard]] Messenger& messenger() { return messenger_; }

  private:
    [[nodiscard]] Workbench bench(Parts& parts, device::Tensor losses);
    [[nodiscard]] std::unique_ptr<Assignment> make_assignment(const RunPlan& plan);

    device::Device& device_;
    const model::Network& network_;
    const data::Dataset& train_;
    const data::Dataset* validation_;
    WorkerConfig config_;
    data::Sampler sampler_;
    std::unique_ptr<device::Stream> stream_;
    Messenger messenger_;
    std::unique_ptr<Assignment> assignment_;
    std::int32_t committed_steps_ = 0;
    bool has_state_ = false;
    bool holds_committed_ = true;  // the parameters that it computes with are those committed
    CommStatus agreement_ = CommStatus::ok;  // how the last one ended
    std::optional<CommStatus> abandoned_;    // how giving up ended
};

}  // namespace rhizome::engine
