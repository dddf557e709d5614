// The judge of the engine: one process trains the whole network, every layer, every lane, by the
// definition (docs/MATHEMATICS.md), without schedules, messages or owners. Any layout of the engine
// has to meet its bits.
#pragma once

#include <string>
#include <vector>

#include "core/lane_tree.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "engine/gradient_sum.hpp"
#include "engine/state_digest.hpp"
#include "engine/step_result.hpp"
#include "model/network.hpp"
#include "model/optimizer.hpp"
#include "model/parameters.hpp"
#include "oracle/microbatch_slot.hpp"

namespace rhizome::oracle {

struct TrainerConfig {
    std::uint64_t seed;
    std::int32_t rows;  // samples per microbatch
    LaneShape lanes;
    model::OptimizerConfig optimizer;
    engine::Recompute recompute;  // changes no result
};

using engine::StepResult;

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
    [[nodiscard]] const model::TensorSet& gradient_by_use() const {
        return gradient_.of(all_lanes());
    }
    [[nodiscard]] device::Stream& stream() { return *stream_; }

    /// Digest of every owned chunk of parameters and moments under its name.
    [[nodiscard]] std::vector<engine::ChunkDigest> chunk_digests();
    [[nodiscard]] std::string digest() { return engine::digest_of(chunk_digests()); }

  private:
    [[nodiscard]] LaneRange all_lanes() const { return {0, config_.lanes.lanes}; }
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
    engine::GradientSum gradient_;
    MicrobatchSlot slot_;

    std::optional<Step> open_step_;   // microbatches have run, the update has not
    std::int64_t loss_terms_ = 0;     // of the open step
    std::vector<double> loss_parts_;  // of the open step, by microbatch
};

}  // namespace rhizome::oracle
