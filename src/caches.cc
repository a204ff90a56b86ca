#include "src/caches.h"

#include <numeric>

namespace rondo {

Stores output_stores(const Call& call, const Place& place) {
  const std::size_t all = std::accumulate(call.chunk_bytes.begin(), call.chunk_bytes.end(), std::size_t{0});
  const auto ranks = static_cast<std::size_t>(place.size);
  const std::size_t touched = call.kind == CallKind::all_reduce ? 2 * ranks * all : (ranks + 1) * all;
  return touched > place.streaming_stores_above ? Stores::streaming : Stores::ordinary;
}

}  // namespace rondo
