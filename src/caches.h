// What of the machine's caches decides how bytes are stored.
#pragma once

#include <cstddef>

#include "kernels/reduce.h"
#include "src/call.h"

namespace rondo {

// Bytes of the last-level cache, which cores share. Where the system does not tell, those of a small server.
std::size_t shared_cache_bytes();

// How to store a direct call's outputs, of all kinds that has_direct_ways: every rank's input is read and
// every rank's output written, and what fits half of the shared cache stays there until it is read. Measured:
// docs/performance.md.
Stores output_stores(CallKind kind, std::size_t all_bytes, int size);

}  // namespace rondo
