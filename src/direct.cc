// Direct reduction: every rank sends each slice straight to the chunk's owner, who adds all of them up in the
// order of the ranks, in f32 for the 16-bit types, and rounds once.
#include <algorithm>
#include <array>

#include "src/collective.h"
#include "src/reduce_extents.h"

namespace rondo {
namespace {

class DirectReduction : public Collective {
 public:
  DirectReduction(const Call& call, const Place& place)
      : call_(call), place_(place), reduction_(reduction_of(call, place.size)), owned_(owned_chunk()) {
    post_sends();
    const std::size_t bytes = owned_bytes();
    slices_ = (bytes + place.slice_bytes - 1) / place.slice_bytes;
    for (std::size_t index = 0; index < std::min(slices_, rounds_.size()); ++index) {
      rounds_[index].room.resize(static_cast<std::size_t>(place.size) * std::min(bytes, place.slice_bytes));
      post_receives(index);
    }
  }

  bool step() override {
    for (; slice_ < slices_; ++slice_) {
      Round& round = rounds_[slice_ % rounds_.size()];
      if (!all_done(round.received)) return false;
      reduce_slice(round);
      if (slice_ + rounds_.size() < slices_) post_receives(slice_ + rounds_.size());
    }
    return all_done(sends_);
  }

 private:
  // The peers' slices of one round. Two rounds take turns: one arrives while the other is added up.
  struct Round {
    std::vector<std::byte> room;
    std::vector<Ticket> received;
  };

  // A reduce has one chunk, and its root owns it; else every rank owns its own.
  int owned_chunk() const {
    if (call_.kind == CallKind::reduce) return place_.rank == call_.root ? 0 : -1;
    return place_.rank;
  }
  std::size_t owned_bytes() const {
    return owned_ < 0 ? 0 : call_.chunk_bytes[static_cast<std::size_t>(owned_)];
  }

  // Slice by slice, as the owners receive them.
  void post_sends() {
    const std::size_t longest = *std::max_element(call_.chunk_bytes.begin(), call_.chunk_bytes.end());
    for (std::size_t offset = 0; offset < longest; offset += place_.slice_bytes) {
      // Each rank begins with its right neighbour, so that no receiver is everybody's first.
      for (int distance = 1; distance < place_.size; ++distance)
        post_send((place_.rank + distance) % place_.size, offset);
    }
  }

  void post_send(int peer, std::size_t offset) {
    if (call_.kind == CallKind::reduce && peer != call_.root) return;
    const std::size_t chunk = call_.kind == CallKind::reduce ? 0 : static_cast<std::size_t>(peer);
    if (call_.chunk_bytes[chunk] <= offset) return;
    const std::size_t bytes = std::min(place_.slice_bytes, call_.chunk_bytes[chunk] - offset);
    sends_.push_back(place_.transport.post_send(
        peer, Channel::collective, slice(call_.input[chunk], offset, bytes), ByteClass::payload));
  }

  std::size_t bytes_of(std::size_t slice_index) const {
    return std::min(place_.slice_bytes, owned_bytes() - slice_index * place_.slice_bytes);
  }

  Extents room_for(Round& round, int peer, std::size_t bytes) const {
    const std::size_t stride = round.room.size() / static_cast<std::size_t>(place_.size);
    return {{round.room.data() + static_cast<std::size_t>(peer) * stride, bytes}};
  }

  void post_receives(std::size_t slice_index) {
    Round& round = rounds_[slice_index % rounds_.size()];
    round.received.clear();
    for (int peer = 0; peer < place_.size; ++peer) {
      if (peer == place_.rank) continue;
      round.received.push_back(place_.transport.post_receive(peer, Channel::collective,
                                                             room_for(round, peer, bytes_of(slice_index))));
    }
  }

  void reduce_slice(Round& round) {
    const auto chunk = static_cast<std::size_t>(owned_);
    const std::size_t offset = slice_ * place_.slice_bytes, bytes = bytes_of(slice_);
    std::vector<Extents> sources;
    for (int peer = 0; peer < place_.size; ++peer)
      sources.push_back(peer == place_.rank ? slice(call_.input[chunk], offset, bytes)
                                            : room_for(round, peer, bytes));
    reduce_extents(reduction_, sources, FirstSource::input, Result::complete,
                   slice(call_.output[chunk], offset, bytes));
  }

  bool all_done(const std::vector<Ticket>& tickets) const {
    return std::all_of(tickets.begin(), tickets.end(),
                       [&](Ticket ticket) { return place_.transport.done(ticket); });
  }

  const Call& call_;
  Place place_;
  Reduction reduction_;
  int owned_;  // -1: none
  std::size_t slices_ = 0, slice_ = 0;
  std::array<Round, 2> rounds_;
  std::vector<Ticket> sends_;
};

}  // namespace

std::unique_ptr<Collective> make_direct_reduction(const Call& call, const Place& place) {
  return std::make_unique<DirectReduction>(call, place);
}

}  // namespace rondo
