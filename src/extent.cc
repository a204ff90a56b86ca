#include "src/extent.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rondo {

std::size_t total_bytes(std::span<const Extent> extents) {
  std::size_t total = 0;
  for (const Extent& extent : extents) total += extent.bytes;
  return total;
}

Extents slice(std::span<const Extent> extents, std::size_t offset, std::size_t bytes) {
  Extents part;
  for (const Extent& extent : extents) {
    if (bytes == 0) break;
    if (offset >= extent.bytes) {
      offset -= extent.bytes;
      continue;
    }
    const std::size_t size = std::min(bytes, extent.bytes - offset);
    part.push_back({extent.data + offset, size});
    bytes -= size;
    offset = 0;
  }
  assert(bytes == 0);
  return part;
}

void copy_extents(std::span<const Extent> from, std::span<const Extent> to) {
  std::size_t from_at = 0, to_at = 0;
  for (auto source = from.begin(), target = to.begin(); source != from.end() && target != to.end();) {
    const std::size_t size = std::min(source->bytes - from_at, target->bytes - to_at);
    if (source->data + from_at != target->data + to_at && size > 0)
      std::memmove(target->data + to_at, source->data + from_at, size);
    from_at += size;
    to_at += size;
    if (from_at == source->bytes) ++source, from_at = 0;
    if (to_at == target->bytes) ++target, to_at = 0;
  }
}

}  // namespace rondo
