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

void append(Extents& list, std::span<const Extent> more) {
  for (const Extent& extent : more) {
    if (!list.empty() && list.back().data + list.back().bytes == extent.data)
      list.back().bytes += extent.bytes;
    else
      list.push_back(extent);
  }
}

std::size_t copy_extents(std::span<const Extent> from, std::span<const Extent> to) {
  std::size_t copied = 0;
  for_each_piece(from, to, [&](const std::byte* source, std::byte* target, std::size_t bytes) {
    if (source != target) std::memmove(target, source, bytes);
    copied += bytes;
  });
  return copied;
}

Extents joined(std::span<const Extents> lists) {
  Extents all;
  for (const Extents& list : lists) append(all, list);
  return all;
}

}  // namespace rondo
