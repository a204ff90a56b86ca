// Calls that only move chunks: each goes straight from the rank that has it to each rank that wants it.
#include <algorithm>

#include "src/collective.h"

namespace rondo {
namespace {

// The chunks of a call, seen as one that only moves them.
struct Moves {
  CallKind kind;
  int root;
  const std::vector<Extents>& input;
  const std::vector<Extents>& output;
};

class Exchange : public Collective {
 public:
  Exchange(const Moves& call, const Place& place) : transport_(place.transport) {
    // Each rank begins with its right neighbour, so that no receiver is everybody's first.
    for (int distance = 1; distance < place.size; ++distance) {
      const int to = (place.rank + distance) % place.size,
                from = (place.rank + place.size - distance) % place.size;
      if (const Extents& chunk = sent(call, place.rank, to); total_bytes(chunk) > 0)
        tickets_.push_back(transport_.post_send(to, Channel::collective, chunk, ByteClass::payload));
      if (const Extents& chunk = received(call, place.rank, from); total_bytes(chunk) > 0)
        tickets_.push_back(transport_.post_receive(from, Channel::collective, chunk));
    }
    copy_extents(sent(call, place.rank, place.rank), received(call, place.rank, place.rank));
  }

  bool step() override {
    return std::all_of(tickets_.begin(), tickets_.end(),
                       [&](Ticket ticket) { return transport_.done(ticket); });
  }

 private:
  // What this rank gives to `to`, and where it puts what `from` gives; nothing: an empty list.
  static const Extents& sent(const Moves& call, int rank, int to) {
    switch (call.kind) {
      case CallKind::all_gather:
        return chunk(call.input, rank);
      case CallKind::broadcast:
        return rank == call.root ? chunk(call.input, 0) : nothing();
      case CallKind::gather:
        return to == call.root ? chunk(call.input, rank) : nothing();
      case CallKind::scatter:
        return rank == call.root ? chunk(call.input, to) : nothing();
      case CallKind::all_to_all:
        return chunk(call.input, to);
      case CallKind::all_reduce:
      case CallKind::reduce_scatter:
      case CallKind::reduce:
      case CallKind::barrier:
      case CallKind::messages:
        break;
    }
    return nothing();
  }

  static const Extents& received(const Moves& call, int rank, int from) {
    switch (call.kind) {
      case CallKind::all_gather:
      case CallKind::all_to_all:
        return chunk(call.output, from);
      case CallKind::broadcast:
        return from == call.root ? chunk(call.output, 0) : nothing();
      case CallKind::gather:
        return rank == call.root ? chunk(call.output, from) : nothing();
      case CallKind::scatter:
        return from == call.root ? chunk(call.output, rank) : nothing();
      case CallKind::all_reduce:
      case CallKind::reduce_scatter:
      case CallKind::reduce:
      case CallKind::barrier:
      case CallKind::messages:
        break;
    }
    return nothing();
  }

  static const Extents& chunk(const std::vector<Extents>& chunks, int index) {
    return chunks[static_cast<std::size_t>(index)];
  }
  static const Extents& nothing() {
    static const Extents none;
    return none;
  }

  Transport& transport_;
  std::vector<Ticket> tickets_;
};

}  // namespace

std::unique_ptr<Collective> make_exchange(const Call& call, const Place& place) {
  return std::make_unique<Exchange>(Moves{call.kind, call.root, call.input, call.output}, place);
}

std::unique_ptr<Collective> make_gather_of_outputs(const Call& call, const Place& place) {
  return std::make_unique<Exchange>(Moves{CallKind::all_gather, 0, call.output, call.output}, place);
}

}  // namespace rondo
