// The mathematics keys of the optimizer: AdamW, warm-up and cosine, clipping (docs/MATHEMATICS.md).
#pragma once

#include <cstdint>

namespace rhizome::model {

struct OptimizerConfig {
    double learning_rate = 1e-3;        // peak, > 0
    double final_learning_rate = 1e-4;  // after the cosine, in [0, peak]
    std::int32_t warmup_steps = 0;
    std::int32_t decay_steps = 0;  // step at which the cosine ends; at least warmup_steps
    double beta1 = 0.9;            // in [0, 1)
    double beta2 = 0.95;           // in [0, 1)
    double epsilon = 1e-8;         // > 0
    double weight_decay = 0.1;     // >= 0, for tensors of two or more dimensions
    double clip_norm = 1.0;        // largest global gradient norm; 0: no clipping

    friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

}  // namespace rhizome::model
