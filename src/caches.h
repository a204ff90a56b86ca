// What of the machine's caches decides how bytes are stored.
#pragma once

#include "kernels/reduce.h"
#include "src/call.h"

namespace rondo {

// Of a call whose whole buffer has so many bytes: every rank's input is read and every rank's output written.
// (Those kinds that go by windows alone are taken for all-gathers.)
std::size_t touched_bytes(CallKind kind, std::size_t all_bytes, int ranks);

// How to store such a call's outputs: what is small beside the shared cache stays there until it is read.
// Measured: docs/performance.md.
Stores output_stores(CallKind kind, std::size_t all_bytes, int size, std::size_t streaming_above);

}  // namespace rondo
