#include "src/collective.h"

#include <bit>

#include "src/hosts.h"

namespace rondo {
namespace {

bool has_ring(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
    case CallKind::broadcast:
    case CallKind::reduce:
      return true;
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      return false;
  }
  return false;
}

// Whether a setting can make calls of this kind go so.
bool can_be_forced(CallKind kind, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return has_ring(kind);
    case Algorithm::direct:
      return true;
    case Algorithm::one_shot:
      return kind == CallKind::all_reduce;
    case Algorithm::doubling:
      return has_direct_ways(kind);
    case Algorithm::tree:
      return kind == CallKind::broadcast;
    case Algorithm::automatic:
    case Algorithm::slots:
    case Algorithm::windows:
    case Algorithm::staged:
    case Algorithm::hierarchy:
      return false;
  }
  return false;
}

// Where ranks share cores, each message costs all of them, and rounds wait for little else.
bool should_double(const Call& call, const Hosts& hosts) {
  const bool pairs = std::has_single_bit(hosts.ranks.size());
  return hosts.short_of_cores && has_direct_ways(call.kind) &&
         (pairs || call.all_bytes() <= most_doubled_unevenly);
}

Algorithm small_between_hosts(const Call& call, const Hosts& hosts) {
  const std::size_t bytes = call.all_bytes();
  const bool whole = call.kind == CallKind::all_reduce;
  const bool can_be_whole = (hosts.of.size() - 1) * bytes <= most_one_shot;
  if (should_double(call, hosts) && (!whole || can_be_whole)) return Algorithm::doubling;
  if (whole && can_be_whole) return Algorithm::one_shot;
  if (call.kind == CallKind::broadcast && bytes >= least_tree) return Algorithm::tree;
  return Algorithm::direct;
}

// Direct all-reduce: a direct reduce-scatter, then a direct all-gather of the outputs. All that this rank
// sends of its input has left before the first peer's output arrives, so that both may be the same memory.
class DirectAllReduce : public Collective {
 public:
  DirectAllReduce(const Call& call, const Place& place) : call_(call), place_(place) {
    current_ = make_direct_reduction(call, place);
  }

  bool step() override {
    if (!current_->step()) return false;
    if (gathering_) return true;
    gathering_ = true;
    current_ = make_gather_of_outputs(call_, place_);
    return current_->step();
  }

 private:
  const Call& call_;
  Place place_;
  bool gathering_ = false;
  std::unique_ptr<Collective> current_;
};

// Every rank has published its call before the collective starts: that is all a barrier needs.
class Barrier : public Collective {
 public:
  bool step() override { return true; }
};

}  // namespace

bool has_direct_ways(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
      return true;
    case CallKind::broadcast:
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      return false;
  }
  return false;
}

Algorithm choose_algorithm(CallKind kind, Algorithm forced) {
  if (can_be_forced(kind, forced)) return forced;
  // A chain spreads a broadcast's copies over the ranks. Reductions go direct: rank order, one rounding.
  return kind == CallKind::broadcast ? Algorithm::ring : Algorithm::direct;
}

Algorithm choose_algorithm(CallKind kind, std::size_t input_bytes, Algorithm forced) {
  const Algorithm algorithm = choose_algorithm(kind, forced);
  // Everybody reads everything at once: one meeting, and no stream.
  const bool slots = algorithm == Algorithm::direct && has_direct_ways(kind) && input_bytes <= slot_bytes;
  return slots ? Algorithm::slots : algorithm;
}

Algorithm choose_algorithm(const Call& call, Algorithm forced) {
  if (!has_direct_ways(call.kind)) return choose_algorithm(call.kind, forced);
  const std::size_t input_bytes = call.kind == CallKind::all_gather ? call.most_bytes() : call.all_bytes();
  return choose_algorithm(call.kind, input_bytes, forced);
}

Algorithm choose_between_hosts(const Call& call, Algorithm forced, const Hosts& hosts) {
  if (can_be_forced(call.kind, forced)) return forced;
  if (!has_ring(call.kind)) return Algorithm::direct;
  if (call.all_bytes() <= most_direct_between_hosts) return small_between_hosts(call, hosts);
  return has_hierarchy(call.kind, hosts) ? Algorithm::hierarchy : Algorithm::ring;
}

bool has_ways(const Call& call, Algorithm chosen, int ranks, const Settings& settings) {
  // What a setting forces goes over streams.
  const bool forced = settings.algorithm == Algorithm::ring || chosen == Algorithm::one_shot ||
                      chosen == Algorithm::doubling || chosen == Algorithm::tree;
  return ranks > 1 && chosen != Algorithm::slots && !forced &&
         (can_use_windows(call) || has_direct_ways(call.kind));
}

Algorithm choose_way(const Call& call, Algorithm chosen, int ranks, const Ways& possible,
                     const Settings& settings) {
  if (!has_ways(call, chosen, ranks, settings)) return chosen;
  if (possible.windows) return Algorithm::windows;
  if (chosen != Algorithm::direct || !has_direct_ways(call.kind) || !possible.staging) return chosen;
  return call.all_bytes() > staged_above(call.kind, settings) ? Algorithm::staged : chosen;
}

std::size_t staged_above(CallKind kind, const Settings& settings) {
  return kind == CallKind::all_gather ? settings.staged_gather_above : settings.staged_reduce_above;
}

std::unique_ptr<Collective> make_collective(const Call& call, Algorithm algorithm, const Place& place,
                                            const Hosts& hosts) {
  if (algorithm == Algorithm::ring) return make_ring(call, place);
  if (algorithm == Algorithm::one_shot) return make_one_shot(call, place);
  if (algorithm == Algorithm::doubling) return make_doubling(call, place, hosts);
  if (algorithm == Algorithm::tree) return make_tree(call, place, hosts);
  if (algorithm == Algorithm::hierarchy) return make_hierarchy(call, place, hosts);
  switch (call.kind) {
    case CallKind::all_reduce:
      return std::make_unique<DirectAllReduce>(call, place);
    case CallKind::reduce_scatter:
    case CallKind::reduce:
      return make_direct_reduction(call, place);
    case CallKind::all_gather:
    case CallKind::broadcast:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
      return make_exchange(call, place);
    case CallKind::barrier:
      return std::make_unique<Barrier>();
    case CallKind::messages:
      return make_messages(call, place);
  }
  return nullptr;
}

Reduction reduction_of(const Call& call, int size) {
  return {call.type, call.op, call.scalar, call.divisor == 0 ? size : call.divisor};
}

}  // namespace rondo
