// Two levels, for hosts with as many ranks each: within a host directly, between hosts by rings. There are as
// many rings as a host has ranks: ring j joins the ranks that are number j on their hosts, and carries the
// chunks of just these ranks. So each byte goes between hosts no more often than with one rank a host, and
// all ranks of a host send and receive at the same time.
#include <algorithm>
#include <functional>

#include "src/collective.h"
#include "src/hosts.h"

namespace rondo {
namespace {

// Some of the ranks, by their places among themselves.
class GroupTransport : public Transport {
 public:
  GroupTransport(Transport& all, std::vector<int> ranks) : all_(all), ranks_(std::move(ranks)) {}

  Ticket post_send(int peer, Channel channel, std::span<const Extent> extents,
                   ByteClass byte_class) override {
    return all_.post_send(rank_at(peer), channel, extents, byte_class);
  }
  Ticket post_receive(int peer, Channel channel, std::span<const Extent> extents) override {
    return all_.post_receive(rank_at(peer), channel, extents);
  }
  bool done(Ticket ticket) const override { return all_.done(ticket); }
  bool progress() override { return all_.progress(); }
  Traffic& traffic() override { return all_.traffic(); }

 private:
  int rank_at(int peer) const { return ranks_[static_cast<std::size_t>(peer)]; }

  Transport& all_;
  std::vector<int> ranks_;
};

std::vector<int> ranks_at(const Hosts& hosts, int place) {
  std::vector<int> ranks;
  for (const auto& host : hosts.ranks) ranks.push_back(host[static_cast<std::size_t>(place)]);
  return ranks;
}

// The first level sums, the second has the rest of the operator: the division, by all ranks.
ReduceOp first_operator(ReduceOp op) { return op == ReduceOp::avg ? ReduceOp::sum : op; }
ReduceOp second_operator(ReduceOp op) { return op == ReduceOp::premul_sum ? ReduceOp::sum : op; }

class Hierarchy : public Collective {
 public:
  Hierarchy(const Call& call, const Place& place, const Hosts& hosts)
      : call_(call),
        rank_(place.rank),
        ranks_(place.size),
        hosts_(hosts),
        near_transport_(place.transport, hosts.neighbours(rank_)),
        ring_transport_(place.transport, ranks_at(hosts, hosts.place_of(rank_))),
        near_{hosts.place_of(rank_),
              static_cast<int>(hosts.neighbours(rank_).size()),
              near_transport_,
              place.slice_bytes,
              place.windows_streaming_above,
              place.staged_streaming_above,
              {}},
        ring_{hosts.host(rank_),
              static_cast<int>(hosts.ranks.size()),
              ring_transport_,
              place.slice_bytes,
              place.windows_streaming_above,
              place.staged_streaming_above,
              {}} {
    plan();
    begin_next();
  }

  bool step() override {
    while (current_->step()) {
      if (next_ == stages_.size()) return true;
      begin_next();
    }
    return false;
  }

 private:
  using Make = std::function<std::unique_ptr<Collective>(const Call&)>;
  // A call of its own, of some of the ranks.
  struct Stage {
    Call call;
    Make make;
  };

  void plan() {
    const Make near_reduction = [this](const Call& call) { return make_direct_reduction(call, near_); };
    const Make near_gather = [this](const Call& call) { return make_gather_of_outputs(call, near_); };
    const Make ring = [this](const Call& call) { return make_ring(call, ring_); };
    switch (call_.kind) {
      case CallKind::all_reduce:
        stages_.push_back({near_call(CallKind::reduce_scatter, &call_.input, &call_.output), near_reduction});
        stages_.push_back({ring_call(call_.output, call_.output), ring});
        stages_.push_back({near_call(CallKind::all_gather, nullptr, &call_.output), near_gather});
        return;
      case CallKind::reduce_scatter:
        make_room();
        stages_.push_back({near_call(CallKind::reduce_scatter, &call_.input, &partial_), near_reduction});
        stages_.push_back({ring_call(partial_, call_.output), ring});
        return;
      case CallKind::all_gather:
        stages_.push_back({ring_call(call_.input, call_.output), ring});
        stages_.push_back({near_call(CallKind::all_gather, nullptr, &call_.output), near_gather});
        return;
      case CallKind::broadcast:
      case CallKind::reduce:
      case CallKind::gather:
      case CallKind::scatter:
      case CallKind::all_to_all:
      case CallKind::barrier:
      case CallKind::messages:
        return;
    }
  }

  void begin_next() {
    const Stage& stage = stages_[next_++];
    current_ = stage.make(stage.call);
  }

  // Among the ranks of this host: chunk k is that of ring k.
  Call near_call(CallKind kind, const std::vector<Extents>* input, const std::vector<Extents>* output) const {
    Call near = part_of_call(kind, first_operator(call_.op));
    for (int k = 0; k < near_.size; ++k) {
      std::size_t bytes = 0;
      Extents in, out;
      for (const int rank : ranks_at(hosts_, k)) {
        bytes += chunk_bytes(rank);
        if (input != nullptr) append(in, at(*input, rank));
        append(out, at(*output, rank));
      }
      near.chunk_bytes.push_back(bytes);
      near.input.push_back(std::move(in));
      near.output.push_back(std::move(out));
    }
    return near;
  }

  // Among the ranks of this one's ring.
  Call ring_call(const std::vector<Extents>& input, const std::vector<Extents>& output) const {
    Call ring = part_of_call(call_.kind, second_operator(call_.op));
    for (const int rank : ranks_at(hosts_, hosts_.place_of(rank_))) {
      ring.chunk_bytes.push_back(chunk_bytes(rank));
      ring.input.push_back(at(input, rank));
      ring.output.push_back(at(output, rank));
    }
    return ring;
  }

  Call part_of_call(CallKind kind, ReduceOp op) const {
    Call part;
    part.kind = kind;
    part.type = call_.type;
    part.op = op;
    part.scalar = call_.scalar;
    part.divisor = ranks_;
    return part;
  }

  // For what a reduce-scatter's first level gives: the chunks of this rank's ring.
  void make_room() {
    const std::vector<int> ranks = ranks_at(hosts_, hosts_.place_of(rank_));
    std::size_t bytes = 0;
    for (const int rank : ranks) bytes += chunk_bytes(rank);
    room_.resize(bytes);
    partial_.resize(static_cast<std::size_t>(ranks_));
    std::size_t offset = 0;
    for (const int rank : ranks) {
      partial_[static_cast<std::size_t>(rank)] = {{room_.data() + offset, chunk_bytes(rank)}};
      offset += chunk_bytes(rank);
    }
  }

  std::size_t chunk_bytes(int rank) const { return call_.chunk_bytes[static_cast<std::size_t>(rank)]; }
  static const Extents& at(const std::vector<Extents>& chunks, int rank) {
    return chunks[static_cast<std::size_t>(rank)];
  }

  const Call& call_;
  int rank_, ranks_;
  const Hosts& hosts_;
  GroupTransport near_transport_, ring_transport_;
  Place near_, ring_;
  std::vector<std::byte> room_;
  std::vector<Extents> partial_;  // by rank, like the call's own
  std::vector<Stage> stages_;
  std::size_t next_ = 0;
  std::unique_ptr<Collective> current_;
};

}  // namespace

bool has_hierarchy(CallKind kind, const Hosts& hosts) {
  const std::size_t ranks = hosts.ranks.front().size();
  const bool even = std::all_of(hosts.ranks.begin(), hosts.ranks.end(),
                                [&](const auto& host) { return host.size() == ranks; });
  return has_direct_ways(kind) && even && ranks > 1 && !hosts.one();
}

std::unique_ptr<Collective> make_hierarchy(const Call& call, const Place& place, const Hosts& hosts) {
  return std::make_unique<Hierarchy>(call, place, hosts);
}

}  // namespace rondo
