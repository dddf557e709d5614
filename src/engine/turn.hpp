// The interpreter: carries out one list of instructions, once. It knows what each instruction does
// and nothing about why it stands where it stands; the order is the schedule's.
//
// Instructions queue operations on the device and messages beside them. Only these wait: what needs
// data waits for their message, parts for the sums, a commit for all parts, the end for everything.
#pragma once

#include <functional>
#include <vector>

#include "data/dataset.hpp"
#include "engine/chunk_exchange.hpp"
#include "engine/fault_point.hpp"
#include "engine/messenger.hpp"
#include "engine/parts.hpp"
#include "engine/program.hpp"
#include "engine/recorder.hpp"
#include "engine/stage.hpp"
#include "engine/votes.hpp"
#include "model/optimizer.hpp"

namespace rhizome::engine {

/// What a worker works with.
struct Workbench {
    device::Stream& stream;
    Messenger& messenger;
    const model::TensorSet& parameters;
    std::vector<std::unique_ptr<Stage>>& stages;  // by stage of the pipeline; null if elsewhere
    ChunkExchange& exchange;
    Parts& parts;
    device::Tensor losses;   // f64, by microbatch
    device::Tensor squares;  // f64, by chunk whose part is made here
    const std::function<void()>& pulse;
    const Probe& probe;
    Recorder* recorder = nullptr;
};

/// What one run of a list is about.
struct Task {
    model::Pass pass;  // but for the microbatch
    const data::Dataset& dataset;
    /// Samples of a microbatch, one per row.
    std::function<std::vector<std::int64_t>(Microbatch)> samples;
    std::int64_t loss_terms;                  // of all microbatches
    const model::OptimizerConfig* optimizer;  // null in an evaluation
    Votes votes;                              // of this worker, for the agreement
};

class Turn {
  public:
    Turn(Workbench bench, const Program& program, const Task& task)
        : bench_{bench}, program_{program}, task_{task} {}

    /// To the end of the list, and until everything sent has left. At the first status that is not
    /// ok it stops where it is.
    [[nodiscard]] CommStatus run();

    /// Was the step's point of no return passed, however the list ended?
    [[nodiscard]] bool committed() const { return committed_; }
    /// How the step's agreement ended; ok if it was not come to.
    [[nodiscard]] CommStatus agreement() const { return agreement_; }
    /// Have lane sums been used up, for those of chunks?
    [[nodiscard]] bool used_sums() const { return used_sums_; }

    // --- after an ok end ---
    [[nodiscard]] double mean_loss() const;
    [[nodiscard]] double gradient_norm() const;
    /// Are loss and norm finite? If not, nothing was committed.
    [[nodiscard]] bool is_finite() const;
    /// What all have voted for.
    [[nodiscard]] Votes votes() const { return votes_; }

  private:
    [[nodiscard]] CommStatus run_list();
    void pass(schedule::Kind kind);
    [[nodiscard]] CommStatus execute(const Operation& operation);
    [[nodiscard]] CommStatus execute_recorded(const Operation& operation);
    [[nodiscard]] CommStatus compute(const Operation& operation);
    [[nodiscard]] CommStatus wire(const Operation& operation);
    [[nodiscard]] CommStatus receive(const Operation& operation);
    [[nodiscard]] CommStatus send_bundle(const Operation& operation);
    [[nodiscard]] CommStatus send_parts(const Operation& operation);
    [[nodiscard]] CommStatus commit();
    [[nodiscard]] CommStatus finish();

    [[nodiscard]] CommStatus make_parts();
    [[nodiscard]] CommStatus collect_parts();
    [[nodiscard]] CommStatus open_slot(Stage& stage, Microbatch microbatch);
    [[nodiscard]] CommStatus load(Stage& stage, Microbatch microbatch);
    [[nodiscard]] CommStatus forward(Stage& stage, const Operation& operation);
    [[nodiscard]] CommStatus backward_input(Stage& stage, const Operation& operation);
    void backward_weight(Stage& stage, Microbatch microbatch);
    void repeat_forward(Stage& stage, Microbatch microbatch);

    /// For the recorder: what is queued in between is what the instruction computes.
    void begin_computing();
    void end_computing();
    [[nodiscard]] Nanoseconds host_time() const;
    [[nodiscard]] Nanoseconds device_time() const;

    /// Between two layers, which may take the host a while.
    void look_up();

    [[nodiscard]] Stage& stage_of(StageId stage) const { return *bench_.stages[stage.index()]; }
    [[nodiscard]] model::Pass pass_of(Microbatch microbatch) const;
    [[nodiscard]] StageMemory::Place place_of(Stage& stage, Microbatch microbatch) const;
    [[nodiscard]] ChunkExchange::LocalSum local_sums() const;
    void copy_wires(std::span<const device::Tensor> to, std::span<const device::Tensor> from);

    struct Awaited {
        const Operation* operation;
        Messenger::Receipt receipt;
    };
    [[nodiscard]] CommStatus wait_for(std::vector<Awaited>& awaited);

    Workbench bench_;
    const Program& program_;
    const Task& task_;
    std::vector<Awaited> sums_;
    std::vector<Awaited> parts_;
    std::vector<Awaited> parameters_;
    bool parts_made_ = false;
    bool committed_ = false;
    CommStatus agreement_ = CommStatus::ok;
    bool used_sums_ = false;
    Votes votes_ = 0;
    std::vector<double> numbers_;       // losses and squares made here, on the host
    std::optional<Interval> computed_;  // by the instruction under way, for the recorder
    std::map<schedule::Kind, std::int32_t> passed_;  // instructions, for the probe
};

}  // namespace rhizome::engine
