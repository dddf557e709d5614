// What a step says about itself: the same numbers on every worker.
#pragma once

#include "core/ids.hpp"

namespace rhizome::engine {

struct StepResult {
    Step step;
    double loss;           // mean over the step's loss terms, before the update
    double gradient_norm;  // before clipping
    double learning_rate;
};

}  // namespace rhizome::engine
