// Calls on windows: each rank reads from and stores to all ranks' memory at once, and no byte is copied on
// the way. Of a reduction or an all-gather it has its own chunk, reduced in the order of the ranks with one
// rounding and stored once to every rank that wants it. Of a broadcast or an all-to-all it takes what is for
// it.
#include <algorithm>

#include "src/caches.h"
#include "src/collective.h"
#include "src/layouts.h"

namespace rondo {
namespace {

CallBuffer buffer_of(const void* buffer, std::size_t bytes, std::uint64_t layout) {
  const auto window = find_window(buffer, bytes);
  if (!window) return {};
  return {*window, layout};
}

CallBuffer buffer_of(const std::vector<Extents>& chunks) {
  const Extent span = span_of(chunks);
  return buffer_of(span.data, span.bytes, layout_of(chunks, span.data));
}

// Loads from and stores to the memory of all ranks. Offsets count from the first byte of each rank's buffer.
class AllWindows {
 public:
  AllWindows(CallKind kind, const Reduction& reduction, std::size_t all_bytes, const Place& place,
             std::span<const PeerBuffers> peers, WindowScratch& scratch)
      : reduction_(reduction),
        stores_(output_stores(kind, all_bytes, place.size, place.windows_streaming_above)),
        place_(place),
        peers_(peers),
        scratch_(scratch) {}

  // From all inputs to all outputs, or to `target` alone.
  void reduce_to_all(std::size_t from, std::size_t to, std::size_t bytes) {
    reduce_to(outputs(to, nullptr), from, bytes);
    for_each_peer([&](int peer) { count_fetched(peer, bytes), count_sent(peer, bytes); });
  }
  void reduce_to_own(std::size_t from, std::byte* target, std::size_t bytes) {
    reduce_to(std::span(&target, 1), from, bytes);
    for_each_peer([&](int peer) { count_fetched(peer, bytes); });
  }

  void copy_to_all(const std::byte* from, std::size_t to, std::size_t bytes) {
    const auto targets = outputs(to, from);
    if (!targets.empty()) copy(from, Targets(targets, stores_), bytes);
    for_each_peer([&](int peer) { count_sent(peer, bytes); });
  }

  void copy_from(int peer, const std::byte* from, std::byte* to, std::size_t bytes) {
    if (from != to) copy(from, Targets(std::span(&to, 1), stores_), bytes);
    if (peer != place_.rank) count_fetched(peer, bytes);
  }

  const PeerBuffers& self() const { return of(place_.rank); }
  const PeerBuffers& of(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

 private:
  // Of all ranks, but for one that is `except`.
  std::span<std::byte* const> outputs(std::size_t offset, const std::byte* except) const {
    auto& targets = scratch_.targets;
    targets.clear();
    for (const PeerBuffers& peer : peers_)
      if (peer.output + offset != except) targets.push_back(peer.output + offset);
    return targets;
  }

  void reduce_to(std::span<std::byte* const> targets, std::size_t from, std::size_t bytes) const {
    auto& sources = scratch_.sources;
    sources.clear();
    for (const PeerBuffers& peer : peers_) sources.push_back(peer.input + from);
    reduce(reduction_, sources, FirstSource::input, Result::complete, Targets(targets, stores_),
           bytes / size_of(reduction_.type));
  }

  template <typename Visit>
  void for_each_peer(Visit visit) const {
    for (int peer = 0; peer < place_.size; ++peer)
      if (peer != place_.rank) visit(peer);
  }
  void count_fetched(int peer, std::size_t bytes) { place_.transport.traffic().count_fetched(peer, bytes); }
  void count_sent(int peer, std::size_t bytes) {
    place_.transport.traffic().count(ByteClass::payload, peer, bytes);
  }

  Reduction reduction_;
  Stores stores_;
  const Place& place_;
  std::span<const PeerBuffers> peers_;  // by rank, this one too
  WindowScratch& scratch_;
};

std::size_t offset_in(const std::byte* begin, const std::byte* data) {
  return static_cast<std::size_t>(data - begin);
}

class OnWindows : public Collective {
 public:
  OnWindows(const Call& call, const Place& place, std::vector<PeerBuffers> peers, MeetAgain meet)
      : call_(call),
        place_(place),
        peers_(std::move(peers)),
        windows_(call.kind, reduction_of(call, place.size), call.all_bytes(), place_, peers_, scratch_),
        meet_(std::move(meet)) {}

  bool step() override {
    if (!moved_) move();
    moved_ = true;
    return meet_();
  }

 private:
  void move() {
    if (call_.kind == CallKind::broadcast)
      take_from(call_.root, {{windows_.of(call_.root).input, call_.chunk_bytes[0]}}, call_.output[0]);
    else if (call_.kind == CallKind::all_to_all)
      take_from_all();
    else
      for_each_piece(
          mine(call_.input), mine(call_.output),
          [&](const std::byte* from, std::byte* to, std::size_t bytes) { move_piece(from, to, bytes); });
  }

  void move_piece(const std::byte* from, std::byte* to, std::size_t bytes) {
    const PeerBuffers& self = windows_.self();
    if (call_.kind == CallKind::all_gather)
      windows_.copy_to_all(from, offset_in(self.output, to), bytes);
    else if (call_.kind == CallKind::all_reduce)
      windows_.reduce_to_all(offset_in(self.input, from), offset_in(self.output, to), bytes);
    else
      windows_.reduce_to_own(offset_in(self.input, from), to, bytes);
  }

  // Begins with this rank's own, then the right neighbour's, so that no rank is everybody's first.
  void take_from_all() {
    for (int distance = 0; distance < place_.size; ++distance) {
      const int peer = (place_.rank + distance) % place_.size;
      Extents from = mine(call_.input);
      for (Extent& piece : from)
        piece.data = windows_.of(peer).input + offset_in(windows_.self().input, piece.data);
      take_from(peer, from, call_.output[static_cast<std::size_t>(peer)]);
    }
  }

  void take_from(int peer, const Extents& from, const Extents& to) {
    for_each_piece(from, to, [&](const std::byte* source, std::byte* target, std::size_t bytes) {
      windows_.copy_from(peer, source, target, bytes);
    });
  }

  const Extents& mine(const std::vector<Extents>& chunks) const {
    return chunks[static_cast<std::size_t>(place_.rank)];
  }

  const Call& call_;
  Place place_;
  std::vector<PeerBuffers> peers_;
  WindowScratch scratch_;
  AllWindows windows_;
  MeetAgain meet_;
  bool moved_ = false;
};

class Meet : public Collective {
 public:
  explicit Meet(MeetAgain meet) : meet_(std::move(meet)) {}
  bool step() override { return meet_(); }

 private:
  MeetAgain meet_;
};

}  // namespace

bool can_use_windows(const Call& call) {
  switch (call.kind) {
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return call.all_bytes() > 0;
    case CallKind::broadcast:
      // Only the root knows how the members of a group lie in its memory.
      return call.all_bytes() > 0 && call.members == 1;
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::barrier:
    case CallKind::messages:
      return false;
  }
  return false;
}

CallWindows windows_of(const Call& call, int rank) {
  if (!can_use_windows(call)) return {};
  const Needs needs = needs_of(call.kind, call.root, rank);
  return {needs.input ? buffer_of(call.input) : CallBuffer{},
          needs.output ? buffer_of(call.output) : CallBuffer{}};
}

bool all_in_windows(const Call& call, int size, const WindowsOfRanks& windows) {
  return can_use_windows(call) && all_in_windows(call.kind, call.root, size, windows);
}

bool all_in_windows(CallKind kind, int root, int size, const WindowsOfRanks& windows) {
  return all_fit(kind, root, size, windows, [](const CallBuffer& buffer, const CallBuffer& first) {
    return buffer.window.number != 0 && buffer.layout == first.layout;
  });
}

std::unique_ptr<Collective> make_windows(const Call& call, const Place& place, std::vector<PeerBuffers> peers,
                                         MeetAgain meet) {
  return std::make_unique<OnWindows>(call, place, std::move(peers), std::move(meet));
}

std::unique_ptr<Collective> make_meeting(MeetAgain meet) { return std::make_unique<Meet>(std::move(meet)); }

// ---- the same for calls that were not made into lists ----

CallWindows windows_of(const PlainCall& plain, int size) {
  const Needs needs = needs_of(plain.kind, 0, 0);
  const std::size_t bytes = plain.all_bytes(size);
  return {needs.input ? buffer_of(plain.send, bytes, 0) : CallBuffer{},
          needs.output ? buffer_of(plain.receive, bytes, 0) : CallBuffer{}};
}

bool in_windows(const CallWindows& windows, CallKind kind, int root, int rank) {
  const Needs needs = needs_of(kind, root, rank);
  return (needs.input || needs.output) && (!needs.input || windows.input.window.number != 0) &&
         (!needs.output || windows.output.window.number != 0);
}

void move_on_windows(const PlainCall& plain, std::span<const std::size_t> chunk_bytes, const Place& place,
                     std::span<const PeerBuffers> peers, WindowScratch& scratch) {
  const auto rank = static_cast<std::size_t>(place.rank);
  const std::size_t bytes = chunk_bytes[rank];
  if (bytes == 0) return;
  std::size_t before = 0;
  for (const std::size_t chunk : chunk_bytes.first(rank)) before += chunk;
  AllWindows windows(plain.kind, {plain.type, plain.op.op, plain.op.scalar, place.size},
                     plain.all_bytes(place.size), place, peers, scratch);
  if (plain.kind == CallKind::all_gather)
    windows.copy_to_all(static_cast<const std::byte*>(plain.send), before, bytes);
  else if (plain.kind == CallKind::all_reduce)
    windows.reduce_to_all(before, before, bytes);
  else
    windows.reduce_to_own(before, static_cast<std::byte*>(plain.receive), bytes);
}

}  // namespace rondo
