// A message, or a chunk of a collective, is a list of extents: pieces of memory that travel one after
// another. A group of calls, the V forms and an FSDP unit of eleven tensors are all such lists, moved without
// packing.
#pragma once

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

// Copies `from` to `to`, which hold the same number of bytes in pieces of any size. Extents that are the same
// memory already (in-place calls) are left alone.
void copy_extents(std::span<const Extent> from, std::span<const Extent> to);

}  // namespace rondo
