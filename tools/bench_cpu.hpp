// The rows of `make bench` about the cpu backend.
#pragma once

#include "bench_support.hpp"

namespace rhizome::bench {

/// GPT-2 of 124 M parameters on one thread, next to the products that one core reaches.
void cpu_backend(Report& report);

}  // namespace rhizome::bench
