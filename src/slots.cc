// Small calls: every rank's input stands in a slot beside its descriptor, and once all have arrived each rank
// takes from the others' slots what it wants. One meeting, no stream, no second wait. Of its own slot it
// reads nothing: what it has just written there may still be on its way to the cache.
#include <array>
#include <cstring>

#include "src/collective.h"
#include "src/reduce_extents.h"

namespace rondo {
namespace {

// A part of an input of `all` bytes in a slot, as a list. Lists of sources are only read.
Extents standing(const SlotsOfRanks& slots, int rank, std::size_t all, std::size_t offset,
                 std::size_t bytes) {
  return {{const_cast<std::byte*>(slots.input(rank, all)) + offset, bytes}};
}

class Slots : public Collective {
 public:
  Slots(const Call& call, const Place& place, const SlotsOfRanks& slots) {
    const auto rank = static_cast<std::size_t>(place.rank);
    if (call.kind == CallKind::all_gather)
      gather_slots(call, place, slots);
    else if (call.kind == CallKind::reduce_scatter)
      reduce_slots(call, place, slots, call.bytes_before(rank), call.input[rank], call.output[rank]);
    else
      reduce_slots(call, place, slots, 0, joined(call.input), joined(call.output));
  }

  bool step() override { return true; }

 private:
  static void gather_slots(const Call& call, const Place& place, const SlotsOfRanks& slots) {
    for (int peer = 0; peer < place.size; ++peer) {
      const auto chunk = static_cast<std::size_t>(peer);
      const std::size_t bytes = call.chunk_bytes[chunk];
      copy_extents(peer == place.rank ? call.input[chunk] : standing(slots, peer, bytes, 0, bytes),
                   call.output[chunk]);
    }
  }

  static void reduce_slots(const Call& call, const Place& place, const SlotsOfRanks& slots,
                           std::size_t offset, const Extents& own, const Extents& target) {
    const std::size_t bytes = total_bytes(target);
    std::vector<Extents> sources;
    for (int peer = 0; peer < place.size; ++peer)
      sources.push_back(peer == place.rank ? own : standing(slots, peer, call.all_bytes(), offset, bytes));
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

void fill_slot(const Call& call, const Place& place, CallSlot& slot) {
  const bool gathers = call.kind == CallKind::all_gather;
  const Extents input = gathers ? call.input[static_cast<std::size_t>(place.rank)] : joined(call.input);
  const std::size_t bytes = total_bytes(input);
  copy_extents(input, Extents{{slot.input(bytes), bytes}});
  count_taken(call.sizes(), bytes, place);
}

std::unique_ptr<Collective> make_slots(const Call& call, const Place& place, const SlotsOfRanks& slots) {
  return std::make_unique<Slots>(call, place, slots);
}

// ---- the same without lists ----

namespace {

void copy_piece(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::memcpy(to, from, bytes);  // quicker than the kernels for a line or two
}

}  // namespace

std::size_t input_bytes(const PlainCall& plain, int size) {
  const std::size_t bytes = plain.count * size_of(plain.type);
  return plain.kind == CallKind::reduce_scatter ? bytes * static_cast<std::size_t>(size) : bytes;
}

void fill_slot(const PlainCall& plain, const CallSizes& sizes, const Place& place, CallSlot& slot) {
  const std::size_t bytes = input_bytes(plain, place.size);
  if (bytes > 0) copy_piece(static_cast<const std::byte*>(plain.send), slot.input(bytes), bytes);
  count_taken(sizes, bytes, place);
}

void take_from_slots(const PlainCall& plain, const Place& place, const SlotsOfRanks& slots) {
  const std::size_t bytes = plain.count * size_of(plain.type);
  if (bytes == 0) return;
  auto* const to = static_cast<std::byte*>(plain.receive);
  if (plain.kind == CallKind::all_gather) {
    for (int peer = 0; peer < place.size; ++peer)
      if (peer != place.rank)
        copy_piece(slots.input(peer, bytes), to + static_cast<std::size_t>(peer) * bytes, bytes);
    return;
  }
  const bool scatters = plain.kind == CallKind::reduce_scatter;
  const std::size_t all = input_bytes(plain, place.size);
  const std::size_t offset = scatters ? static_cast<std::size_t>(place.rank) * bytes : 0;
  std::array<const std::byte*, most_plain_ranks> sources;
  for (int peer = 0; peer < place.size; ++peer)
    sources[static_cast<std::size_t>(peer)] =
        (peer == place.rank ? static_cast<const std::byte*>(plain.send) : slots.input(peer, all)) + offset;
  reduce({plain.type, plain.op.op, plain.op.scalar, place.size},
         std::span(sources).first(static_cast<std::size_t>(place.size)), FirstSource::input, Result::complete,
         to, plain.count);
}

}  // namespace rondo
