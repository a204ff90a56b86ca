#include "src/parts.h"

namespace rondo {

bool begin_part(const Segment& segment, int part, std::uint64_t sequence) {
  std::atomic<std::uint64_t>& begun = segment.rank(part).begun;
  std::uint64_t last = begun.load(std::memory_order_relaxed);
  // Numbers grow, and nobody is at the next call before all parts of this one are done. What the part's rank
  // has told of its buffers was acquired when the ranks met.
  return last < sequence && begun.compare_exchange_strong(last, sequence, std::memory_order_relaxed);
}

void leave_note(const Segment& segment, int part, std::uint64_t sequence, const PartBytes& moved) {
  RankLines& lines = segment.rank(part);
  lines.by_other = moved;
  lines.moved_by_other = sequence;
}

std::optional<PartBytes> note_of(const Segment& segment, int part, std::uint64_t sequence) {
  const RankLines& lines = segment.rank(part);
  if (lines.moved_by_other != sequence) return std::nullopt;
  return lines.by_other;
}

}  // namespace rondo
