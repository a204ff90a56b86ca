// Calls on windows: each rank has its own chunk, reads it from all ranks' memory at once, reduces in the
// order of the ranks with one rounding, and stores it once to every rank that wants it. No byte is copied on
// the way.
#include "src/caches.h"
#include "src/collective.h"

namespace rondo {
namespace {

// Where a chunk begins in a buffer of all chunks.
std::size_t offset_of(const Call& call, int chunk) {
  std::size_t offset = 0;
  for (int before = 0; before < chunk; ++before) offset += call.chunk_bytes[static_cast<std::size_t>(before)];
  return offset;
}

// The first byte of a buffer that begins with chunk 0, null where all chunks are empty.
std::byte* begin_of(const std::vector<Extents>& chunks) {
  for (const Extents& chunk : chunks)
    if (!chunk.empty()) return chunk.front().data;
  return nullptr;
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
    if (bytes() == 0) return;
    if (call_.kind == CallKind::all_gather)
      copy_to_all();
    else
      reduce_mine();
  }

  std::size_t bytes() const { return call_.chunk_bytes[static_cast<std::size_t>(place_.rank)]; }

  void reduce_mine() {
    const std::size_t offset = offset_of(call_, place_.rank);
    std::vector<const std::byte*> sources;
    for (const PeerBuffers& peer : peers_) sources.push_back(peer.input + offset);
    std::vector<std::byte*> targets;
    if (call_.kind == CallKind::all_reduce)
      for (const PeerBuffers& peer : peers_) targets.push_back(peer.output + offset);
    else
      targets.push_back(call_.output[static_cast<std::size_t>(place_.rank)].front().data);
    reduce(reduction_of(call_, place_.size), sources, FirstSource::input, Result::complete,
           Targets(targets, stores()), bytes() / size_of(call_.type));
    count(true, call_.kind == CallKind::all_reduce);
  }

  void copy_to_all() {
    const std::size_t offset = offset_of(call_, place_.rank);
    const std::byte* from = call_.input[static_cast<std::size_t>(place_.rank)].front().data;
    std::vector<std::byte*> targets;
    for (const PeerBuffers& peer : peers_)
      if (std::byte* to = peer.output + offset; to != from) targets.push_back(to);
    if (!targets.empty()) copy(from, Targets(targets, stores()), bytes());
    count(false, true);
  }

  Stores stores() const { return output_stores(call_, place_.size, place_.windows_streaming_above); }

  void count(bool fetched, bool sent) {
    for (int peer = 0; peer < place_.size; ++peer) {
      if (peer == place_.rank) continue;
      if (fetched) place_.transport.traffic().count_fetched(peer, bytes());
      if (sent) place_.transport.traffic().count(ByteClass::payload, peer, bytes());
    }
  }

  const Call& call_;
  Place place_;
  std::vector<PeerBuffers> peers_;  // by rank, this one too
  MeetAgain meet_;
  bool moved_ = false;
};

std::size_t all_bytes(const Call& call) { return offset_of(call, static_cast<int>(call.chunk_bytes.size())); }

}  // namespace

std::optional<WindowNeeds> window_needs(const Call& call) {
  // The members of a group lie in many places.
  if (!has_direct_ways(call.kind) || call.members != 1 || all_bytes(call) == 0) return std::nullopt;
  return WindowNeeds{call.kind != CallKind::all_gather, call.kind != CallKind::reduce_scatter};
}

CallWindows windows_of(const Call& call) {
  CallWindows windows{};
  const auto needs = window_needs(call);
  if (!needs) return windows;
  const auto input = needs->input ? find_window(begin_of(call.input), all_bytes(call)) : std::nullopt;
  const auto output = needs->output ? find_window(begin_of(call.output), all_bytes(call)) : std::nullopt;
  if (input) windows.input = *input;
  if (output) windows.output = *output;
  return windows;
}

std::unique_ptr<Collective> make_windows(const Call& call, const Place& place, std::vector<PeerBuffers> peers,
                                         MeetAgain meet) {
  return std::make_unique<OnWindows>(call, place, std::move(peers), std::move(meet));
}

}  // namespace rondo
