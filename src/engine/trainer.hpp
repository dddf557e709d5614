// One process trains the whole network: every layer, every lane. What it computes is the definition
// that any other layout has to meet bit for bit (docs/MATHEMATICS.md).
#pragma once

#include <string>
#include <vector>

#include "core/lane_tree.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "engine/gradient_sum.hpp"
#include "engine/microbatch_slot.hpp"
#include "model/network.hpp"
#include "model/optimizer.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {

struct TrainerConfig {
    std::uint64_t seed;
    std::int32_t rows;  // samples per microbatch
    LaneShape lanes;
    model::OptimizerConfig optimizer;
    Recompute recompute;  // changes no result
};

struct StepResult {
    Step step;
    double loss;           // mean over the step's loss terms, before the update
    double gradient_norm;  // before clipping
    double learning_rate;
};

/// Bytes of memory that a trainer takes while each step's microbatches run in ascending order.
struct MemoryPlan {
    std::int64_t held;       // from the first step to the end
    std::int64_t workspace;  // of one operation, at most

    [[nodiscard]] std::int64_t total() const { return held + workspace; }
};

/// To be asked before there is a trainer.
[[nodiscard]] MemoryPlan plan_memory(const model::Network& network,
                                     std::span<const TensorSpec> fields,
                                     const TrainerConfig& config);

class Trainer {
  public:
    /// Makes the initial parameters. All references must outlive the trainer.
    Trainer(device::Device& device, const model::Network& network, const data::Dataset& dataset,
            const TrainerConfig& config);

    /// Forward and backward of one microbatch of a step. Lanes may be mixed in any way; within a
    /// lane microbatches ascend.
    void run_microbatch(Step step, Microbatch microbatch);
    /// The update, once all microbatches of the step have run. Throws DivergedError, and leaves the
    /// parameters alone, when loss or gradient is not finite.
    StepResult finish_step(Step step);
    /// Both, for all microbatches.
    StepResult run_step(Step step);

    /// Throws DivergedError if a parameter is not finite. A step's update can do that without its
    /// loss and gradient, which are those before the update, showing it.
    void expect_finite_parameters();

    /// Mean loss of the first samples of a data set, in order, without dropout: at most that many
    /// microbatches, and only whole ones, of which there must be one. Throws DivergedError if it is
    /// not finite.
    [[nodiscard]] double evaluate(const data::Dataset& dataset, std::int64_t microbatches_max);

    /// The parameters, for tests and tools to read or to set between steps.
    [[nodiscard]] const model::TensorSet& parameters() const { return parameters_; }
    [[nodiscard]] const model::Moments& moments() const { return moments_; }
    /// The current step's gradient by use; only between its last microbatch and finish_step.
    [[nodiscard]] const model::TensorSet& gradient_by_use() const { return gradient_.by_use(); }
    [[nodiscard]] device::Stream& stream() { return *stream_; }

    /// Device memory that is held now; with the last microbatch of a step, MemoryPlan::held.
    [[nodiscard]] std::int64_t bytes() const;

    /// Digest of every owned chunk of parameters and moments under its name.
    [[nodiscard]] std::string digest();

  private:
    void begin_step(Step step);
    [[nodiscard]] std::vector<std::int64_t> samples_of(Step step, Microbatch microbatch) const;
    [[nodiscard]] double mean_loss() const;
    [[nodiscard]] double norm_of(const model::TensorSet& set);

    const model::Network& network_;
    const data::Dataset& dataset_;
    TrainerConfig config_;
    data::Sampler sampler_;
    device::Device& device_;
    std::unique_ptr<device::Stream> stream_;
    model::TensorSet parameters_;
    model::Moments moments_;
    GradientSum gradient_;
    MicrobatchSlot slot_;

    std::optional<Step> open_step_;   // microbatches have run, the update has not
    std::int64_t loss_terms_ = 0;     // of the open step
    std::vector<double> loss_parts_;  // of the open step, by microbatch
};

}  // namespace rhizome::engine
