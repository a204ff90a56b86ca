// Calls of one round through staging areas that were not made into lists (src/staged.cc has those that were).
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "src/collective.h"
#include "src/staging.h"

namespace rondo {
namespace {

using ChunkBytes = std::span<const std::size_t>;

std::size_t bytes_before(ChunkBytes chunk_bytes, int rank) {
  const auto before = chunk_bytes.first(static_cast<std::size_t>(rank));
  return std::accumulate(before.begin(), before.end(), std::size_t{0});
}

std::size_t bytes_of(ChunkBytes chunk_bytes, int rank) { return chunk_bytes[static_cast<std::size_t>(rank)]; }

void copy_piece(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes > 0 && from != to) copy(from, Targets(std::span(&to, 1)), bytes);
}

void count(const Place& place, int peer, std::size_t bytes) {
  place.transport.traffic().count(ByteClass::payload, peer, bytes);
}

// Begins with the right neighbour, so that no rank is everybody's first.
template <typename Visit>
void for_each_peer(const Place& place, Visit visit) {
  for (int distance = 1; distance < place.size; ++distance) visit((place.rank + distance) % place.size);
}

const std::byte* input_of(const PlainCall& plain) { return static_cast<const std::byte*>(plain.send); }
std::byte* output_of(const PlainCall& plain) { return static_cast<std::byte*>(plain.receive); }

}  // namespace

bool fits_one_round(ChunkBytes chunk_bytes, const Staging& staging) {
  return *std::max_element(chunk_bytes.begin(), chunk_bytes.end()) <= staging.slice_bytes();
}

void fill_round(const PlainCall& plain, ChunkBytes chunk_bytes, const Place& place, const Staging& staging) {
  const std::uint64_t round = staging.rounds();
  if (plain.kind == CallKind::all_gather) {
    const std::size_t bytes = bytes_of(chunk_bytes, place.rank);
    copy_piece(input_of(plain), staging.slice(place.rank, place.rank, round), bytes);
    for_each_peer(place, [&](int peer) { count(place, peer, bytes); });
    return;
  }
  for_each_peer(place, [&](int peer) {
    const std::size_t bytes = bytes_of(chunk_bytes, peer);
    copy_piece(input_of(plain) + bytes_before(chunk_bytes, peer), staging.slice(place.rank, peer, round),
               bytes);
    count(place, peer, bytes);
  });
}

void keep_own(const PlainCall& plain, std::size_t bytes, const Place& place) {
  std::byte* const to = output_of(plain) + static_cast<std::size_t>(place.rank) * bytes;
  if (bytes > slot_bytes)
    copy_piece(input_of(plain), to, bytes);
  else if (bytes > 0 && to != input_of(plain))
    std::memcpy(to, input_of(plain), bytes);  // quicker than the kernels for a line or two
}

void reduce_round(const PlainCall& plain, ChunkBytes chunk_bytes, const Place& place,
                  const Staging& staging) {
  const std::size_t bytes = bytes_of(chunk_bytes, place.rank), before = bytes_before(chunk_bytes, place.rank);
  if (bytes == 0) return;
  const std::uint64_t round = staging.rounds();
  std::array<const std::byte*, most_plain_ranks> sources;
  for (int peer = 0; peer < place.size; ++peer)
    sources[static_cast<std::size_t>(peer)] =
        peer == place.rank ? input_of(plain) + before : staging.slice(peer, place.rank, round);
  const bool gathers = plain.kind == CallKind::all_reduce;
  const std::array<std::byte*, 2> targets{output_of(plain) + (gathers ? before : 0),
                                          staging.slice(place.rank, place.rank, round)};
  reduce({plain.type, plain.op.op, plain.op.scalar, place.size},
         std::span(sources).first(static_cast<std::size_t>(place.size)), FirstSource::input, Result::complete,
         Targets(std::span(targets).first(gathers ? 2 : 1)), bytes / size_of(plain.type));
  if (gathers) for_each_peer(place, [&](int peer) { count(place, peer, bytes); });
}

void gather_round(const PlainCall& plain, ChunkBytes chunk_bytes, const Place& place,
                  const Staging& staging) {
  for_each_peer(place, [&](int peer) {
    copy_piece(staging.slice(peer, peer, staging.rounds()),
               output_of(plain) + bytes_before(chunk_bytes, peer), bytes_of(chunk_bytes, peer));
  });
}

}  // namespace rondo
