// Calls on windows: each rank reads from and stores to all ranks' memory at once, and no byte is copied on
// the way. Of a reduction or an all-gather it has its own chunk, reduced in the order of the ranks with one
// rounding and stored once to every rank that wants it. Of a broadcast or an all-to-all it takes what is for
// it.
#include <algorithm>

#include "src/caches.h"
#include "src/collective.h"

namespace rondo {
namespace {

// From the first to the last byte of a buffer in pieces; nothing where all pieces are empty.
Extent span_of(const std::vector<Extents>& chunks) {
  std::byte *begin = nullptr, *end = nullptr;
  for (const Extents& chunk : chunks) {
    for (const Extent& piece : chunk) {
      begin = begin == nullptr ? piece.data : std::min(begin, piece.data);
      end = std::max(end, piece.data + piece.bytes);
    }
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

// How the pieces lie in their span: ranks with the same layout find their way in one another's memory.
std::uint64_t layout_of(const std::vector<Extents>& chunks, const std::byte* begin) {
  std::uint64_t layout = 0;
  for (const Extents& chunk : chunks)
    for (const Extent& piece : chunk)
      layout = mix(mix(layout, static_cast<std::uint64_t>(piece.data - begin)), piece.bytes);
  return layout;
}

CallBuffer buffer_of(const std::vector<Extents>& chunks) {
  const Extent span = span_of(chunks);
  const auto window = find_window(span.data, span.bytes);
  if (!window) return {};
  return {*window, layout_of(chunks, span.data)};
}

struct Needs {
  bool input, output;
};

// Which of rank `rank`'s buffers others read or write.
Needs needs_of(const Call& call, int rank) {
  switch (call.kind) {
    case CallKind::all_reduce:
      return {true, true};
    case CallKind::all_gather:
      return {false, true};
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return {true, false};
    case CallKind::broadcast:
      return {rank == call.root, false};
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::barrier:
    case CallKind::messages:
      return {false, false};
  }
  return {false, false};
}

class OnWindows : public Collective {
 public:
  OnWindows(const Call& call, const Place& place, std::vector<PeerBuffers> peers, MeetAgain meet)
      : call_(call), place_(place), peers_(std::move(peers)), meet_(std::move(meet)) {}

  bool step() override {
    if (!moved_) move();
    moved_ = true;
    return meet_();
  }

 private:
  void move() {
    if (call_.kind == CallKind::broadcast)
      take_from(call_.root, {{peers_[static_cast<std::size_t>(call_.root)].input, call_.chunk_bytes[0]}},
                call_.output[0]);
    else if (call_.kind == CallKind::all_to_all)
      take_from_all();
    else if (call_.kind == CallKind::all_gather)
      copy_to_all();
    else
      reduce_mine();
  }

  void reduce_mine() {
    const bool to_all = call_.kind == CallKind::all_reduce;
    std::vector<const std::byte*> sources(peers_.size());
    std::vector<std::byte*> targets(to_all ? peers_.size() : 1);
    std::size_t moved = 0;
    for_each_piece(mine(call_.input), mine(call_.output),
                   [&](const std::byte* from, std::byte* to, std::size_t bytes) {
                     for (std::size_t peer = 0; peer < sources.size(); ++peer)
                       sources[peer] = peers_[peer].input + (from - self().input);
                     for (std::size_t peer = 0; peer < targets.size(); ++peer)
                       targets[peer] = to_all ? peers_[peer].output + (to - self().output) : to;
                     reduce(reduction_of(call_, place_.size), sources, FirstSource::input, Result::complete,
                            Targets(targets, stores()), bytes / size_of(call_.type));
                     moved += bytes;
                   });
    for_each_peer([&](int peer) { count_fetched(peer, moved); });
    if (to_all) for_each_peer([&](int peer) { count_sent(peer, moved); });
  }

  void copy_to_all() {
    std::vector<std::byte*> targets;
    std::size_t moved = 0;
    for_each_piece(mine(call_.input), mine(call_.output),
                   [&](const std::byte* from, std::byte* to, std::size_t bytes) {
                     targets.clear();
                     for (const PeerBuffers& peer : peers_)
                       if (std::byte* target = peer.output + (to - self().output); target != from)
                         targets.push_back(target);
                     if (!targets.empty()) copy(from, Targets(targets, stores()), bytes);
                     moved += bytes;
                   });
    for_each_peer([&](int peer) { count_sent(peer, moved); });
  }

  // Begins with this rank's own, then the right neighbour's, so that no rank is everybody's first.
  void take_from_all() {
    for (int distance = 0; distance < place_.size; ++distance) {
      const int peer = (place_.rank + distance) % place_.size;
      Extents from = mine(call_.input);
      for (Extent& piece : from)
        piece.data = peers_[static_cast<std::size_t>(peer)].input + (piece.data - self().input);
      take_from(peer, from, call_.output[static_cast<std::size_t>(peer)]);
    }
  }

  void take_from(int peer, const Extents& from, const Extents& to) {
    std::size_t moved = 0;
    for_each_piece(from, to, [&](const std::byte* source, std::byte* target, std::size_t bytes) {
      if (source != target) copy(source, Targets(std::span(&target, 1), stores()), bytes);
      moved += bytes;
    });
    if (peer != place_.rank) count_fetched(peer, moved);
  }

  const PeerBuffers& self() const { return peers_[static_cast<std::size_t>(place_.rank)]; }
  const Extents& mine(const std::vector<Extents>& chunks) const {
    return chunks[static_cast<std::size_t>(place_.rank)];
  }
  Stores stores() const { return output_stores(call_, place_.size); }

  template <typename Visit>
  void for_each_peer(Visit visit) const {
    for (int peer = 0; peer < place_.size; ++peer)
      if (peer != place_.rank) visit(peer);
  }
  void count_fetched(int peer, std::size_t bytes) { place_.transport.traffic().count_fetched(peer, bytes); }
  void count_sent(int peer, std::size_t bytes) {
    place_.transport.traffic().count(ByteClass::payload, peer, bytes);
  }

  const Call& call_;
  Place place_;
  std::vector<PeerBuffers> peers_;  // by rank, this one too
  MeetAgain meet_;
  bool moved_ = false;
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
  const Needs needs = needs_of(call, rank);
  return {needs.input ? buffer_of(call.input) : CallBuffer{},
          needs.output ? buffer_of(call.output) : CallBuffer{}};
}

bool all_in_windows(const Call& call, int size, const WindowsOfRanks& windows) {
  if (!can_use_windows(call)) return false;
  const CallWindows* first = nullptr;
  for (int rank = 0; rank < size; ++rank) {
    const Needs needs = needs_of(call, rank);
    if (!needs.input && !needs.output) continue;
    const CallWindows& one = windows(rank);
    if (first == nullptr) first = &one;
    const auto fits = [](const CallBuffer& buffer, const CallBuffer& other) {
      return buffer.window.number != 0 && buffer.layout == other.layout;
    };
    if (needs.input && !fits(one.input, first->input)) return false;
    if (needs.output && !fits(one.output, first->output)) return false;
  }
  return true;
}

std::unique_ptr<Collective> make_windows(const Call& call, const Place& place, std::vector<PeerBuffers> peers,
                                         MeetAgain meet) {
  return std::make_unique<OnWindows>(call, place, std::move(peers), std::move(meet));
}

}  // namespace rondo
