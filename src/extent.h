// A message, or a chunk of a collective, is a list of extents: pieces of memory that travel one after
// another. A group of calls, the V forms and an FSDP unit of eleven tensors are all such lists, moved without
// packing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace rondo {

struct Extent {
  std::byte* data;
  std::size_t bytes;
};

using Extents = std::vector<Extent>;

std::size_t total_bytes(std::span<const Extent> extents);

// The part of `extents` from byte `offset` on, `bytes` long. Both must lie inside.
Extents slice(std::span<const Extent> extents, std::size_t offset, std::size_t bytes);

// Adds `more` to the end of `list`. Pieces that lie one after another become one.
void append(Extents& list, std::span<const Extent> more);
// All of them in one list, likewise.
Extents joined(std::span<const Extents> lists);

// Visits two lists of the same number of bytes, in pieces of any size, in pieces that are whole in both:
// visit(data in `first`, data in `second`, bytes).
template <typename Visit>
void for_each_piece(std::span<const Extent> first, std::span<const Extent> second, Visit visit) {
  std::size_t first_at = 0, second_at = 0;
  for (auto one = first.begin(), other = second.begin(); one != first.end() && other != second.end();) {
    const std::size_t bytes = std::min(one->bytes - first_at, other->bytes - second_at);
    if (bytes > 0) visit(one->data + first_at, other->data + second_at, bytes);
    first_at += bytes;
    second_at += bytes;
    if (first_at == one->bytes) ++one, first_at = 0;
    if (second_at == other->bytes) ++other, second_at = 0;
  }
}

// Copies `from` to `to`, which hold the same number of bytes in pieces of any size, and returns that number.
// Extents that are the same memory already (in-place calls) are left alone.
std::size_t copy_extents(std::span<const Extent> from, std::span<const Extent> to);

}  // namespace rondo
