#include "src/device_job.h"

#include "kernels/device/job.h"

namespace rondo {
namespace {

std::uint64_t address_of(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Adds pieces to a job that has none yet.
class Pieces {
 public:
  Pieces(device::Job& job, std::span<device::Piece> room) : job_(job), room_(room) {}

  void add(std::uint64_t from, std::uint64_t to, std::size_t bytes, int group = 0) {
    room_[job_.piece_count++] = {from, to, bytes, static_cast<std::uint64_t>(group)};
    job_.bytes += bytes;
  }

 private:
  device::Job& job_;
  std::span<device::Piece> room_;
};

const Extents& of_rank(const std::vector<Extents>& chunks, int rank) {
  return chunks[static_cast<std::size_t>(rank)];
}

bool is_in_place(const Extents& input, const Extents& output) {
  bool same = true;
  for_each_piece(input, output,
                 [&](const std::byte* from, const std::byte* to, std::size_t) { same &= from == to; });
  return same;
}

template <typename Visit>
void for_each_peer(int rank, std::size_t size, Visit visit) {
  for (int peer = 0; peer < static_cast<int>(size); ++peer)
    if (peer != rank) visit(peer);
}

}  // namespace

std::size_t most_pieces(const Call& call) {
  std::size_t extents = 0;
  for (const auto* chunks : {&call.input, &call.output})
    for (const Extents& chunk : *chunks) extents += chunk.size();
  return extents;
}

std::uint64_t groups_of(CallKind kind, int size) {
  return kind == CallKind::all_to_all ? static_cast<std::uint64_t>(size) : 1;
}

// Buffers of peers that are all read, or all stored to, are named once, and the pieces count from their first
// byte; what is this rank's alone is named by each piece.
void write_windows_job(const Call& call, int rank, const device::ReduceWork& reduction,
                       std::span<const PeerBuffersOnDevice> peers, device::Job& job,
                       std::span<device::Piece> pieces) {
  const PeerBuffersOnDevice& self = peers[static_cast<std::size_t>(rank)];
  Pieces added(job, pieces);
  device::ReduceWork& work = job.work;
  work = reduction;
  const bool reduces = call.kind == CallKind::all_reduce || call.kind == CallKind::reduce_scatter;
  const bool stores_to_all = call.kind == CallKind::all_reduce || call.kind == CallKind::all_gather;
  job.copies = !reduces;
  if (reduces)
    for (const PeerBuffersOnDevice& peer : peers) work.sources[work.source_count++] = peer.input;
  else
    work.sources[work.source_count++] = nullptr;
  if (stores_to_all) {
    const bool skips_own = !reduces && is_in_place(of_rank(call.input, rank), of_rank(call.output, rank));
    for (std::size_t peer = 0; peer < peers.size(); ++peer)
      if (!skips_own || peer != static_cast<std::size_t>(rank))
        work.targets[work.target_count++] = peers[peer].output;
  } else {
    work.targets[work.target_count++] = nullptr;
  }
  // `from`: in a peer's memory, the pieces that lie so in this rank's.
  const auto copy_from = [&](const std::byte* peers_buffer, const std::byte* own_buffer, const Extents& from,
                             const Extents& to, int group) {
    for_each_piece(from, to, [&](std::byte* own, std::byte* target, std::size_t bytes) {
      const std::uint64_t source = address_of(peers_buffer) + (address_of(own) - address_of(own_buffer));
      if (source != address_of(target)) added.add(source, address_of(target), bytes, group);
    });
  };
  if (call.kind == CallKind::broadcast) {
    std::byte* const source = peers[static_cast<std::size_t>(call.root)].input;
    copy_from(source, source, {{source, call.chunk_bytes[0]}}, call.output[0], 0);
  } else if (call.kind == CallKind::all_to_all) {
    // Begins with this rank's own, then the right neighbour's, so that no rank is everybody's first.
    for (int distance = 0; distance < static_cast<int>(peers.size()); ++distance) {
      const int peer = (rank + distance) % static_cast<int>(peers.size());
      copy_from(peers[static_cast<std::size_t>(peer)].input, self.input, of_rank(call.input, rank),
                of_rank(call.output, peer), peer);
    }
  } else {
    for_each_piece(of_rank(call.input, rank), of_rank(call.output, rank),
                   [&](std::byte* from, std::byte* to, std::size_t bytes) {
                     added.add(reduces ? address_of(from) - address_of(self.input) : address_of(from),
                               stores_to_all ? address_of(to) - address_of(self.output) : address_of(to),
                               bytes);
                   });
  }
}

void count_windows_job(CallKind kind, int root, int rank, std::span<const std::uint64_t> moved_by_group,
                       Traffic& to) {
  const std::uint64_t moved = moved_by_group.front();
  const auto sent = [&](int peer) { to.count(ByteClass::payload, peer, moved); };
  const auto fetched = [&](int peer) { to.count_fetched(peer, moved); };
  const std::size_t size = to.fetched.size();
  switch (kind) {
    case CallKind::all_reduce:
      for_each_peer(rank, size, sent);
      for_each_peer(rank, size, fetched);
      return;
    case CallKind::reduce_scatter:
      return for_each_peer(rank, size, fetched);
    case CallKind::all_gather:
      return for_each_peer(rank, size, sent);
    case CallKind::broadcast:
      if (rank != root) fetched(root);
      return;
    case CallKind::all_to_all:
      return for_each_peer(rank, size, [&](int peer) {
        to.count_fetched(peer, moved_by_group[static_cast<std::size_t>(peer)]);
      });
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::barrier:
    case CallKind::messages:
      return;
  }
}

}  // namespace rondo
