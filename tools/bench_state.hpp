// States: how fast they are written and read, and what saving costs the steps beside it.
#pragma once

#include "bench_support.hpp"

namespace rhizome::bench {

void states(Report& report);

}  // namespace rhizome::bench
