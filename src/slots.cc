// Small calls: every rank's input stands in a slot beside its descriptor, and once all have arrived each rank
// takes from all slots what it wants. One meeting, no stream, no second wait.
#include <numeric>

#include "src/collective.h"
#include "src/reduce_extents.h"

namespace rondo {
namespace {

std::size_t bytes_before(const Call& call, std::size_t chunk) {
  return std::accumulate(call.chunk_bytes.begin(), call.chunk_bytes.begin() + static_cast<long>(chunk),
                         std::size_t{0});
}

Extents joined(const std::vector<Extents>& chunks) {
  Extents all;
  for (const Extents& chunk : chunks) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

class Slots : public Collective {
 public:
  Slots(const Call& call, const Place& place, const std::vector<std::span<std::byte>>& slots) {
    const auto rank = static_cast<std::size_t>(place.rank);
    switch (call.kind) {
      case CallKind::all_reduce:
        reduce_slots(call, place, slots, 0, bytes_before(call, call.chunk_bytes.size()), joined(call.output));
        break;
      case CallKind::reduce_scatter:
        reduce_slots(call, place, slots, bytes_before(call, rank), call.chunk_bytes[rank], call.output[rank]);
        break;
      case CallKind::all_gather:
        for (std::size_t chunk = 0; chunk < slots.size(); ++chunk)
          copy_extents(Extents{{slots[chunk].data(), call.chunk_bytes[chunk]}}, call.output[chunk]);
        break;
      case CallKind::broadcast:
      case CallKind::reduce:
      case CallKind::gather:
      case CallKind::scatter:
      case CallKind::all_to_all:
      case CallKind::barrier:
      case CallKind::messages:
        break;
    }
  }

  bool step() override { return true; }

 private:
  static void reduce_slots(const Call& call, const Place& place,
                           const std::vector<std::span<std::byte>>& slots, std::size_t offset,
                           std::size_t bytes, const Extents& target) {
    std::vector<Extents> sources;
    for (const std::span<std::byte> slot : slots) sources.push_back({{slot.data() + offset, bytes}});
    reduce_extents(reduction_of(call, place.size), sources, FirstSource::input, Result::complete, target);
  }
};

}  // namespace

void fill_slot(const Call& call, const Place& place, std::span<std::byte> slot) {
  const auto rank = static_cast<std::size_t>(place.rank);
  const bool gathers = call.kind == CallKind::all_gather;
  const Extents input = gathers ? call.input[rank] : joined(call.input);
  copy_extents(input, Extents{{slot.data(), total_bytes(input)}});
  // A peer takes all of an all-reduce's input, and its own chunk of a reduce-scatter's.
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer == place.rank) continue;
    const std::size_t taken = call.kind == CallKind::reduce_scatter
                                  ? call.chunk_bytes[static_cast<std::size_t>(peer)]
                                  : total_bytes(input);
    place.transport.traffic().count(ByteClass::payload, peer, taken);
  }
}

std::unique_ptr<Collective> make_slots(const Call& call, const Place& place,
                                       std::vector<std::span<std::byte>> slots) {
  return std::make_unique<Slots>(call, place, slots);
}

}  // namespace rondo
