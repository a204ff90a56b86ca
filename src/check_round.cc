#include "src/check_round.h"

#include <algorithm>

namespace rondo {
namespace {

Extent extent_of(CallDescriptor& descriptor) {
  return {reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor};
}

}  // namespace

CheckRound::CheckRound(const CallDescriptor& mine, const Place& place)
    : transport_(place.transport), descriptors_(static_cast<std::size_t>(place.size), mine) {
  const Extent own = extent_of(descriptors_[static_cast<std::size_t>(place.rank)]);
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer == place.rank) continue;
    const Extent theirs = extent_of(descriptors_[static_cast<std::size_t>(peer)]);
    tickets_.push_back(
        transport_.post_send(peer, Channel::collective, std::span(&own, 1), ByteClass::protocol));
    tickets_.push_back(transport_.post_receive(peer, Channel::collective, std::span(&theirs, 1)));
  }
}

bool CheckRound::step() const {
  return std::all_of(tickets_.begin(), tickets_.end(),
                     [&](Ticket ticket) { return transport_.done(ticket); });
}

}  // namespace rondo
