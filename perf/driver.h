// What all perf programs have in common. Each states its collective and calls this.
#pragma once

#include "perf/collective.h"

namespace rondo {

// The exit status: 0, 2 for bad usage, 77 where there is no device whose memory was asked for, 1 for other
// errors and for wrong results.
int perf_main(int argc, char** argv, const Collective& collective);

}  // namespace rondo
