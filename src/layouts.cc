#include "src/layouts.h"

#include <algorithm>

namespace rondo {

Extent span_of(const std::vector<Extents>& chunks) {
  std::byte *begin = nullptr, *end = nullptr;
  for (const Extents& chunk : chunks) {
    for (const Extent& piece : chunk) {
      begin = begin == nullptr ? piece.data : std::min(begin, piece.data);
      end = std::max(end, piece.data + piece.bytes);
    }
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::uint64_t layout_of(const std::vector<Extents>& chunks, const std::byte* begin) {
  std::uint64_t layout = 0;
  bool consecutive = true;
  const std::byte* next = begin;
  for (const Extents& chunk : chunks) {
    for (const Extent& piece : chunk) {
      consecutive &= piece.data == next;
      next = piece.data + piece.bytes;
      layout = mix(mix(layout, static_cast<std::uint64_t>(piece.data - begin)), piece.bytes);
    }
  }
  return consecutive ? 0 : layout;
}

Needs needs_of(CallKind kind, int root, int rank) {
  switch (kind) {
    case CallKind::all_reduce:
      return {true, true};
    case CallKind::all_gather:
      return {false, true};
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return {true, false};
    case CallKind::broadcast:
      return {rank == root, false};
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::barrier:
    case CallKind::messages:
      return {false, false};
  }
  return {false, false};
}

}  // namespace rondo
