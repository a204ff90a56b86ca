// Direct calls on memory from malloc, where processes may read one another: each rank reads the slices it
// needs straight from all ranks, reduces them in the order of the ranks, and reads the others' results.
// Nobody sends.
#include <algorithm>

#include "src/collective.h"
#include "src/reduce_extents.h"

namespace rondo {
namespace {

class Reads : public Collective {
 public:
  Reads(const Call& call, const Place& place, std::vector<PeerExtents> peers, MeetAgain meet)
      : call_(call), place_(place), peers_(std::move(peers)), meet_(std::move(meet)) {}

  // An all-reduce meets once before results are read; all calls meet at the end, since until then a peer may
  // be reading here.
  bool step() override {
    if (!std::exchange(reduced_, true) && call_.kind != CallKind::all_gather) reduce_mine();
    if (call_.kind == CallKind::all_reduce && !meet_(0)) return false;
    if (!std::exchange(gathered_, true) && call_.kind != CallKind::reduce_scatter) gather();
    return meet_(1);
  }

 private:
  std::size_t mine() const { return static_cast<std::size_t>(place_.rank); }
  bool is_me(std::size_t peer) const { return peer == mine(); }

  void reduce_mine() {
    const std::size_t bytes = call_.chunk_bytes[mine()];
    const std::size_t slice_bytes = std::min(bytes, place_.slice_bytes);
    std::vector<std::byte> room(peers_.size() * slice_bytes);
    for (std::size_t offset = 0; offset < bytes; offset += slice_bytes)
      reduce_slice(offset, std::min(slice_bytes, bytes - offset), room);
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (!is_me(peer)) place_.transport.traffic().count_fetched(static_cast<int>(peer), bytes);
  }

  void reduce_slice(std::size_t offset, std::size_t bytes, std::span<std::byte> room) {
    std::vector<Extents> sources;
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      if (is_me(peer)) {
        sources.push_back(slice(call_.input[mine()], offset, bytes));
        continue;
      }
      sources.push_back({{room.data() + peer * (room.size() / peers_.size()), bytes}});
      read_peer_memory(static_cast<int>(peer), peers_[peer].process,
                       slice(peers_[peer].input[mine()], offset, bytes), sources.back());
    }
    reduce_extents(reduction_of(call_, place_.size), sources, FirstSource::input, Result::complete,
                   slice(call_.output[mine()], offset, bytes));
  }

  // Each rank begins with its right neighbour, so that no memory is everybody's first.
  void gather() {
    if (call_.kind == CallKind::all_gather) copy_extents(call_.input[mine()], call_.output[mine()]);
    for (int distance = 1; distance < place_.size; ++distance) {
      const int peer = (place_.rank + distance) % place_.size;
      const auto chunk = static_cast<std::size_t>(peer);
      read_peer_memory(peer, peers_[chunk].process, peers_[chunk].result, call_.output[chunk]);
      place_.transport.traffic().count_fetched(peer, call_.chunk_bytes[chunk]);
    }
  }

  const Call& call_;
  Place place_;
  std::vector<PeerExtents> peers_;  // by rank
  MeetAgain meet_;
  bool reduced_ = false, gathered_ = false;
};

}  // namespace

// The input's chunks, then what peers read of this rank's result: an all-gather's is its input.
std::vector<Extents> lists_for_peers(const Call& call, int rank) {
  std::vector<Extents> lists = call.input;
  const auto mine = static_cast<std::size_t>(rank);
  lists.push_back(call.kind == CallKind::all_gather ? call.input[mine] : call.output[mine]);
  return lists;
}

std::unique_ptr<Collective> make_reads(const Call& call, const Place& place, std::vector<PeerExtents> peers,
                                       MeetAgain meet) {
  return std::make_unique<Reads>(call, place, std::move(peers), std::move(meet));
}

}  // namespace rondo
