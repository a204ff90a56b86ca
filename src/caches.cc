#include "src/caches.h"

#include <numeric>

namespace rondo {

std::size_t touched_bytes(CallKind kind, std::size_t all_bytes, int ranks) {
  const auto all_ranks = static_cast<std::size_t>(ranks);
  return (kind == CallKind::all_reduce ? 2 * all_ranks : all_ranks + 1) * all_bytes;
}

Stores output_stores(const Call& call, int size, std::size_t streaming_above) {
  const std::size_t all = std::accumulate(call.chunk_bytes.begin(), call.chunk_bytes.end(), std::size_t{0});
  return touched_bytes(call.kind, all, size) > streaming_above ? Stores::streaming : Stores::ordinary;
}

}  // namespace rondo
