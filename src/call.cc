#include "src/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace rondo {

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return "all-reduce";
    case CallKind::all_gather:
      return "all-gather";
    case CallKind::reduce_scatter:
      return "reduce-scatter";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::reduce:
      return "reduce";
    case CallKind::gather:
      return "gather";
    case CallKind::scatter:
      return "scatter";
    case CallKind::all_to_all:
      return "all-to-all";
    case CallKind::barrier:
      return "barrier";
    case CallKind::messages:
      return "send/receive";
  }
  return "?";
}

std::size_t Call::bytes_before(std::size_t chunk) const {
  const auto begin = chunk_bytes.begin();
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(chunk), std::size_t{0});
}

std::size_t Call::most_bytes() const { return *std::max_element(chunk_bytes.begin(), chunk_bytes.end()); }

CallDescriptor Call::descriptor() const {
  return {count,
          shape,
          scalar,
          root,
          static_cast<std::uint8_t>(kind),
          static_cast<std::uint8_t>(type),
          static_cast<std::uint8_t>(op),
          members};
}

std::string text_of(CallKind kind, std::uint64_t count, DataType type) {
  if (kind == CallKind::barrier) return name_of(kind);
  return fmt::format("{} of {} {}", name_of(kind), count, name_of(type));
}

std::string Call::text() const {
  if (kind == CallKind::messages) return fmt::format("{} ({} messages)", name_of(kind), messages.size());
  return text_of(kind, count, type);
}

}  // namespace rondo
