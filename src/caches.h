// What of the machine's caches decides how bytes are stored.
#pragma once

#include <cstddef>

#include "kernels/reduce.h"

namespace rondo {

// Bytes of the last-level cache, which cores share. Where the system does not tell, those of a small server.
std::size_t shared_cache_bytes();

// How to store the results of a call that touches so many bytes on this host, all ranks together: what fits
// half of the shared cache stays there until it is read. Measured: docs/performance.md.
Stores stores_for(std::size_t touched_bytes);

}  // namespace rondo
