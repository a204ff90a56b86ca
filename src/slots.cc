// Small calls: every rank's input stands in a slot beside its descriptor, and once all have arrived each rank
// takes from all slots what it wants. One meeting, no stream, no second wait.
#include <array>
#include <cstring>

#include "src/collective.h"
#include "src/reduce_extents.h"

namespace rondo {
namespace {

Extents joined(const std::vector<Extents>& chunks) {
  Extents all;
  for (const Extents& chunk : chunks) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

class Slots : public Collective {
 public:
  Slots(const Call& call, const Place& place, const SlotsOfRanks& slots) {
    const auto rank = static_cast<std::size_t>(place.rank);
    if (call.kind == CallKind::all_gather)
      gather_slots(call, slots);
    else if (call.kind == CallKind::reduce_scatter)
      reduce_slots(call, place, slots, call.bytes_before(rank), call.chunk_bytes[rank], call.output[rank]);
    else
      reduce_slots(call, place, slots, 0, call.all_bytes(), joined(call.output));
  }

  bool step() override { return true; }

 private:
  static void gather_slots(const Call& call, const SlotsOfRanks& slots) {
    for (std::size_t chunk = 0; chunk < call.chunk_bytes.size(); ++chunk)
      copy_extents(Extents{{slots(static_cast<int>(chunk)), call.chunk_bytes[chunk]}}, call.output[chunk]);
  }

  static void reduce_slots(const Call& call, const Place& place, const SlotsOfRanks& slots,
                           std::size_t offset, std::size_t bytes, const Extents& target) {
    std::vector<Extents> sources;
    for (int peer = 0; peer < place.size; ++peer) sources.push_back({{slots(peer) + offset, bytes}});
    reduce_extents(reduction_of(call, place.size), sources, FirstSource::input, Result::complete, target);
  }
};

// A peer takes all of an all-reduce's or all-gather's input, and its own chunk of a reduce-scatter's.
void count_taken(const CallSizes& call, std::size_t input_bytes, const Place& place) {
  Traffic& traffic = place.transport.traffic();
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer == place.rank) continue;
    const std::size_t taken = call.kind == CallKind::reduce_scatter
                                  ? call.chunk_bytes[static_cast<std::size_t>(peer)]
                                  : input_bytes;
    traffic.count(ByteClass::payload, peer, taken);
  }
}

}  // namespace

void fill_slot(const Call& call, const Place& place, std::byte* slot) {
  const bool gathers = call.kind == CallKind::all_gather;
  const Extents input = gathers ? call.input[static_cast<std::size_t>(place.rank)] : joined(call.input);
  copy_extents(input, Extents{{slot, total_bytes(input)}});
  count_taken(call.sizes(), total_bytes(input), place);
}

std::unique_ptr<Collective> make_slots(const Call& call, const Place& place, const SlotsOfRanks& slots) {
  return std::make_unique<Slots>(call, place, slots);
}

// ---- the same without lists ----

std::size_t input_bytes(const PlainCall& plain, int size) {
  const std::size_t bytes = plain.count * size_of(plain.type);
  return plain.kind == CallKind::reduce_scatter ? bytes * static_cast<std::size_t>(size) : bytes;
}

void fill_slot(const PlainCall& plain, const CallSizes& sizes, const Place& place, std::byte* slot) {
  const std::size_t bytes = input_bytes(plain, place.size);
  if (bytes > 0) std::memcpy(slot, plain.send, bytes);
  count_taken(sizes, bytes, place);
}

void take_from_slots(const PlainCall& plain, const Place& place, const SlotsOfRanks& slots) {
  const std::size_t bytes = plain.count * size_of(plain.type);
  if (bytes == 0) return;
  auto* const to = static_cast<std::byte*>(plain.receive);
  if (plain.kind == CallKind::all_gather) {
    for (int peer = 0; peer < place.size; ++peer)
      std::memcpy(to + static_cast<std::size_t>(peer) * bytes, slots(peer), bytes);
    return;
  }
  const bool scatters = plain.kind == CallKind::reduce_scatter;
  const std::size_t offset = scatters ? static_cast<std::size_t>(place.rank) * bytes : 0;
  std::array<const std::byte*, most_plain_ranks> sources;
  for (int peer = 0; peer < place.size; ++peer)
    sources[static_cast<std::size_t>(peer)] = slots(peer) + offset;
  reduce({plain.type, plain.op.op, plain.op.scalar, place.size},
         std::span(sources).first(static_cast<std::size_t>(place.size)), FirstSource::input, Result::complete,
         to, plain.count);
}

}  // namespace rondo
