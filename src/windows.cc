// Calls on windows: each rank reads from and stores to all ranks' memory at once, and no byte is copied on
// the way. Of a reduction or an all-gather its part is its own chunk, reduced in the order of the ranks with
// one rounding and stored once to every rank that wants it. Of a broadcast or an all-to-all it takes what is
// for it.
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
    moved_.from_each += bytes;
    moved_.to_each += bytes;
  }
  void reduce_to_one(std::size_t from, std::byte* target, std::size_t bytes) {
    reduce_to(std::span(&target, 1), from, bytes);
    moved_.from_each += bytes;
  }

  void copy_to_all(const std::byte* from, std::size_t to, std::size_t bytes) {
    const auto targets = outputs(to, from);
    if (!targets.empty()) copy(from, Targets(targets, stores_), bytes);
    moved_.to_each += bytes;
  }

  void copy_from(int peer, const std::byte* from, std::byte* to, std::size_t bytes) {
    if (from != to) copy(from, Targets(std::span(&to, 1), stores_), bytes);
    if (peer != place_.rank) place_.transport.traffic().count_fetched(peer, bytes);
  }

  // What all but copy_from() have moved since this was asked.
  PartBytes take_moved() { return std::exchange(moved_, {}); }

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

  Reduction reduction_;
  Stores stores_;
  const Place& place_;
  std::span<const PeerBuffers> peers_;  // by rank, this one too
  WindowScratch& scratch_;
  PartBytes moved_{};
};

std::size_t offset_in(const std::byte* begin, const std::byte* data) {
  return static_cast<std::size_t>(data - begin);
}

class OnWindows : public Collective {
 public:
  OnWindows(const Call& call, const Place& place, PartsOfCall parts)
      : call_(call), place_(place), parts_(std::move(parts)) {}

  bool step() override {
    if (!moved_) move_parts();
    moved_ = true;
    return parts_.all_are_done();
  }

 private:
  // Begins with this rank's own.
  void move_parts() {
    for (int distance = 0; distance < place_.size; ++distance) {
      const int part = (place_.rank + distance) % place_.size;
      if (!parts_.is_mine(part)) continue;
      if (!windows_) map();
      move(part);
      parts_.is_done(part, windows_->take_moved());
    }
  }

  void map() {
    parts_.map(peers_);
    windows_.emplace(call_.kind, reduction_of(call_, place_.size), call_.all_bytes(), place_, peers_,
                     scratch_);
  }

  void move(int part) {
    if (call_.kind == CallKind::broadcast)
      take_from(call_.root, {{windows_->of(call_.root).input, call_.chunk_bytes[0]}}, call_.output[0]);
    else if (call_.kind == CallKind::all_to_all)
      take_from_all();
    else
      for_each_piece(
          input_of(part), output_of(part),
          [&](const std::byte* from, std::byte* to, std::size_t bytes) { move_piece(from, to, bytes); });
  }

  // What only rank `part` has is one piece there, if it is another rank.
  Extents input_of(int part) const {
    if (part == place_.rank || call_.kind != CallKind::all_gather) return chunk(call_.input, part);
    return {{windows_->of(part).input, call_.chunk_bytes[static_cast<std::size_t>(part)]}};
  }
  Extents output_of(int part) const {
    if (part == place_.rank || call_.kind != CallKind::reduce_scatter) return chunk(call_.output, part);
    return {{windows_->of(part).output, call_.chunk_bytes[static_cast<std::size_t>(part)]}};
  }

  void move_piece(const std::byte* from, std::byte* to, std::size_t bytes) {
    const PeerBuffers& self = windows_->self();
    if (call_.kind == CallKind::all_gather)
      windows_->copy_to_all(from, offset_in(self.output, to), bytes);
    else if (call_.kind == CallKind::all_reduce)
      windows_->reduce_to_all(offset_in(self.input, from), offset_in(self.output, to), bytes);
    else
      windows_->reduce_to_one(offset_in(self.input, from), to, bytes);
  }

  // Begins with this rank's own, then the right neighbour's, so that no rank is everybody's first.
  void take_from_all() {
    for (int distance = 0; distance < place_.size; ++distance) {
      const int peer = (place_.rank + distance) % place_.size;
      Extents from = chunk(call_.input, place_.rank);
      for (Extent& piece : from)
        piece.data = windows_->of(peer).input + offset_in(windows_->self().input, piece.data);
      take_from(peer, from, call_.output[static_cast<std::size_t>(peer)]);
    }
  }

  void take_from(int peer, const Extents& from, const Extents& to) {
    for_each_piece(from, to, [&](const std::byte* source, std::byte* target, std::size_t bytes) {
      windows_->copy_from(peer, source, target, bytes);
    });
  }

  static const Extents& chunk(const std::vector<Extents>& chunks, int rank) {
    return chunks[static_cast<std::size_t>(rank)];
  }

  const Call& call_;
  Place place_;
  std::vector<PeerBuffers> peers_;
  WindowScratch scratch_;
  std::optional<AllWindows> windows_;  // once mapped
  PartsOfCall parts_;
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

CallWindows windows_of(const Call& call, int rank, bool both) {
  if (!can_use_windows(call)) return {};
  const Needs needs = needs_of(call.kind, call.root, rank);
  return {needs.input || both ? buffer_of(call.input) : CallBuffer{},
          needs.output || both ? buffer_of(call.output) : CallBuffer{}};
}

bool all_in_windows(const Call& call, int size, const WindowsOfRanks& windows) {
  return can_use_windows(call) && all_in_windows(call.kind, call.root, size, windows);
}

bool all_in_windows(CallKind kind, int root, int size, const WindowsOfRanks& windows) {
  return all_fit(kind, root, size, windows, [](const CallBuffer& buffer, const CallBuffer& first) {
    return buffer.window.number != 0 && buffer.layout == first.layout;
  });
}

bool parts_can_be_shared(CallKind kind, int members) {
  return kind == CallKind::all_reduce ||
         ((kind == CallKind::all_gather || kind == CallKind::reduce_scatter) && members == 1);
}

bool parts_can_be_shared(CallKind kind, int members, int size, const WindowsOfRanks& windows) {
  if (!parts_can_be_shared(kind, members)) return false;
  for (int rank = 0; rank < size; ++rank)
    if (windows(rank).input.window.number == 0 || windows(rank).output.window.number == 0) return false;
  return true;
}

std::unique_ptr<Collective> make_windows(const Call& call, const Place& place, PartsOfCall parts) {
  return std::make_unique<OnWindows>(call, place, std::move(parts));
}

std::unique_ptr<Collective> make_meeting(MeetAgain meet) { return std::make_unique<Meet>(std::move(meet)); }

// ---- the same for calls that were not made into lists ----

CallWindows windows_of(const PlainCall& plain, int size, bool both) {
  const Needs needs = needs_of(plain.kind, 0, 0);
  const std::size_t all = plain.all_bytes(size), own = plain.count * size_of(plain.type);
  return {needs.input || both ? buffer_of(plain.send, needs.input ? all : own, 0) : CallBuffer{},
          needs.output || both ? buffer_of(plain.receive, needs.output ? all : own, 0) : CallBuffer{}};
}

bool in_windows(const CallWindows& windows, CallKind kind, int root, int rank) {
  const Needs needs = needs_of(kind, root, rank);
  return (needs.input || needs.output) && (!needs.input || windows.input.window.number != 0) &&
         (!needs.output || windows.output.window.number != 0);
}

PartBytes move_on_windows(const PlainCall& plain, int part, std::span<const std::size_t> chunk_bytes,
                          const Place& place, std::span<const PeerBuffers> peers, WindowScratch& scratch) {
  const auto chunk = static_cast<std::size_t>(part);
  const std::size_t bytes = chunk_bytes[chunk];
  if (bytes == 0) return {};
  std::size_t before = 0;
  for (const std::size_t other : chunk_bytes.first(chunk)) before += other;
  AllWindows windows(plain.kind, {plain.type, plain.op.op, plain.op.scalar, place.size},
                     plain.all_bytes(place.size), place, peers, scratch);
  const bool own = part == place.rank;
  if (plain.kind == CallKind::all_gather)
    windows.copy_to_all(own ? static_cast<const std::byte*>(plain.send) : peers[chunk].input, before, bytes);
  else if (plain.kind == CallKind::all_reduce)
    windows.reduce_to_all(before, before, bytes);
  else
    windows.reduce_to_one(before, own ? static_cast<std::byte*>(plain.receive) : peers[chunk].output, bytes);
  return windows.take_moved();
}

}  // namespace rondo
