#include "src/staging.h"

#include <algorithm>

#include "src/pages.h"

namespace rondo {
namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t rounds_at_once = 2;

constexpr std::size_t quotient_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

std::size_t Staging::area_bytes(std::size_t bytes, int size) {
  if (bytes == 0) return 0;
  const std::size_t least = rounds_at_once * static_cast<std::size_t>(size) * cache_line;
  return whole_pages(std::max(bytes, least));
}

Staging::Staging(const Segment& segment, int rank, int size, std::function<void()> wake)
    : segment_(segment),
      rank_(rank),
      size_(size),
      wake_(std::move(wake)),
      rounds_(count_of(rank, Point::finished).load(std::memory_order_acquire)),
      finished_by_all_(rounds_) {}

std::size_t Staging::slice_bytes() const {
  return segment_.staging(rank_).size() / rounds_at_once / static_cast<std::size_t>(size_) / cache_line *
         cache_line;
}

Staging::Rounds Staging::equal_rounds(std::size_t chunk_bytes, std::size_t most_bytes) {
  if (chunk_bytes == 0) return {0, 0};
  const std::size_t count = quotient_up(chunk_bytes, most_bytes);
  return {count, quotient_up(quotient_up(chunk_bytes, count), cache_line) * cache_line};
}

std::byte* Staging::slice(int from, int to, std::uint64_t round) const {
  const std::uint64_t turn = round / rounds_at_once;
  // Two ranks swap what one has for the other; what is for all goes around.
  if (from == to)
    from = to = next_in_turn(from, turn, size_);
  else if (turn % 2 == 1)
    std::swap(from, to);
  const std::size_t index =
      round % rounds_at_once * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to);
  return segment_.staging(from).data() + index * slice_bytes();
}

std::atomic<std::uint64_t>& Staging::count_of(int rank, Point point) const {
  RankLines& lines = segment_.rank(rank);
  switch (point) {
    case Point::filled:
      return lines.filled;
    case Point::reduced:
      return lines.reduced;
    case Point::finished:
      break;
  }
  return lines.finished;
}

bool Staging::can_fill_ahead() const {
  return rounds_ < rounds_at_once || rounds_ - rounds_at_once < finished_by_all_ ||
         all_reached(Point::finished, rounds_ - rounds_at_once);
}

void Staging::reach(Point point, std::uint64_t round) const {
  reach_quietly(point, round);
  wake_();
}

void Staging::reach_quietly(Point point, std::uint64_t round) const {
  count_of(rank_, point).store(round + 1, std::memory_order_release);  // releases what we have staged
}

bool Staging::all_reached(Point point, std::uint64_t round) const {
  for (int peer = 0; peer < size_; ++peer)
    // Acquires what they have staged; sequentially consistent for a rank that is about to sleep.
    if (count_of(peer, point).load(std::memory_order_seq_cst) < round + 1) return false;
  return true;
}

void Staging::reserve() {
  if (!reserved_) segment_.reserve(segment_.staging(rank_));
  reserved_ = true;
}

}  // namespace rondo
