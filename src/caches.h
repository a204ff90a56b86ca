// What of the machine's caches decides how bytes are stored.
#pragma once

#include "kernels/reduce.h"
#include "src/collective.h"

namespace rondo {

// How to store a direct call's outputs, of all kinds that has_direct_ways: every rank's input is read and
// every rank's output written, and what is small beside the shared cache stays there until it is read.
// Measured: docs/performance.md.
Stores output_stores(const Call& call, const Place& place);

}  // namespace rondo
