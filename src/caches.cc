#include "src/caches.h"

namespace rondo {

std::size_t touched_bytes(CallKind kind, std::size_t all_bytes, int ranks) {
  const auto all_ranks = static_cast<std::size_t>(ranks);
  return (kind == CallKind::all_reduce ? 2 * all_ranks : all_ranks + 1) * all_bytes;
}

Stores output_stores(CallKind kind, std::size_t all_bytes, int size, std::size_t streaming_above) {
  return touched_bytes(kind, all_bytes, size) > streaming_above ? Stores::streaming : Stores::ordinary;
}

}  // namespace rondo
