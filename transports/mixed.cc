// Some ranks on this host, others elsewhere: each pair of ranks by what reaches it.
#include "src/hosts.h"
#include "src/transport.h"

namespace rondo {
namespace {

class MixedTransport : public Transport {
 public:
  MixedTransport(std::unique_ptr<Transport> local, Transport& network, const Hosts& hosts, int rank)
      : local_(std::move(local)),
        network_(network),
        hosts_(hosts),
        rank_(rank),
        traffic_(static_cast<int>(hosts.of.size())) {}

  Ticket post_send(int peer, Channel channel, std::span<const Extent> extents,
                   ByteClass byte_class) override {
    if (!is_near(peer)) return network_ticket(network_.post_send(peer, channel, extents, byte_class));
    return local_ticket(local_->post_send(hosts_.place_of(peer), channel, extents, byte_class));
  }

  Ticket post_receive(int peer, Channel channel, std::span<const Extent> extents) override {
    if (!is_near(peer)) return network_ticket(network_.post_receive(peer, channel, extents));
    return local_ticket(local_->post_receive(hosts_.place_of(peer), channel, extents));
  }

  bool done(Ticket ticket) const override {
    if (ticket.stream < 0) return true;
    const Ticket inner{ticket.stream / 2, ticket.number};
    return ticket.stream % 2 == 0 ? local_->done(inner) : network_.done(inner);
  }

  bool progress() override {
    const bool moved = local_->progress();
    return network_.progress() || moved;
  }

  Traffic& traffic() override {
    // Within its host a rank goes by its place there.
    Traffic& local = local_->traffic();
    for (const int peer : hosts_.neighbours(rank_))
      for (const ByteClass byte_class : {ByteClass::payload, ByteClass::padding, ByteClass::protocol})
        traffic_.count(byte_class, peer,
                       local.of(byte_class)[static_cast<std::size_t>(hosts_.place_of(peer))]);
    local.clear();
    traffic_ += network_.traffic();
    network_.traffic().clear();
    return traffic_;
  }

 private:
  bool is_near(int peer) const { return hosts_.together(peer, rank_); }
  static Ticket local_ticket(Ticket inner) { return numbered(inner, 0); }
  static Ticket network_ticket(Ticket inner) { return numbered(inner, 1); }
  static Ticket numbered(Ticket inner, int which) {
    return inner.stream < 0 ? inner : Ticket{2 * inner.stream + which, inner.number};
  }

  std::unique_ptr<Transport> local_;
  Transport& network_;
  const Hosts& hosts_;
  int rank_;
  Traffic traffic_;
};

}  // namespace

std::unique_ptr<Transport> make_mixed_transport(std::unique_ptr<Transport> local, Transport& network,
                                                const Hosts& hosts, int rank) {
  return std::make_unique<MixedTransport>(std::move(local), network, hosts, rank);
}

}  // namespace rondo
