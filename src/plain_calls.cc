// Calls of the commonest kinds, small, on windows or of one round through staging areas, carried out at once
// where nothing is under way and all ranks come soon: no queue, no lists, no memory taken. Else they become
// pending calls like all others.
#include <limits>

#include "src/caches.h"
#include "src/communicator.h"
#include "src/engine.h"
#include "src/log.h"
#include "src/moving.h"
#include "src/nudge.h"

namespace rondo {

// How a plain call goes; automatic: not here.
struct Communicator::PlainWay {
  Algorithm algorithm = Algorithm::automatic;
  CallWindows windows{};  // this rank's
};

void Communicator::run(const PlainCall& plain) {
  need_own_process();
  std::shared_ptr<PendingCall> pending;
  {
    const Lock lock(mutex_);
    if (pending_.empty() && !failure_told()) {
      const PlainWay way = plain_way(plain);
      if (way.algorithm != Algorithm::automatic) {
        pending = run_or_queue(plain, way);
        if (!pending) return;
      }
    }
  }
  if (pending)
    wait_for(*pending);
  else
    run(call_of({rank_, size_}, plain));
}

Communicator::PlainWay Communicator::plain_way(const PlainCall& plain) {
  constexpr std::size_t most_count =
      std::numeric_limits<std::uint32_t>::max();  // whose bytes do not overflow
  if (!plain_at_once_ || plain.count > most_count) return {};
  if (plain.kind == CallKind::barrier) return {Algorithm::direct};
  if (plain.count > 0 && (plain.send == nullptr || plain.receive == nullptr)) return {};
  const Algorithm algorithm =
      choose_algorithm(plain.kind, input_bytes(plain, size_), options_.settings.algorithm);
  if (algorithm == Algorithm::slots) return {Algorithm::slots};
  if (algorithm != Algorithm::direct || size_ == 1) return {};
  const CallWindows windows =
      membership_.windows ? windows_of(plain, size_, oversubscribed()) : CallWindows{};
  if (in_windows(windows, plain.kind, 0, rank_)) return {Algorithm::windows, windows};
  const std::size_t all_bytes = plain.all_bytes(size_);
  if (!staging_.exists() || all_bytes <= staged_above(plain.kind, options_.settings) ||
      output_stores(plain.kind, all_bytes, size_, options_.settings.staged_streaming_above) ==
          Stores::streaming)
    return {};
  set_chunk_bytes(chunk_bytes_, plain, size_);
  if (!fits_one_round(chunk_bytes_, staging_) || !staging_.can_fill_ahead()) return {};
  return {Algorithm::staged};
}

// Null when the call is done. Once its number is taken, whatever goes wrong here breaks the communicator:
// others count on the call.
std::shared_ptr<PendingCall> Communicator::run_or_queue(const PlainCall& plain, const PlainWay& way) {
  const auto broken = [&](const Error& error) {
    break_off(error, text_of(plain.kind, plain.count, plain.type));
    return Error(*error_);
  };
  try {
    const std::uint64_t sequence = ++sequence_;
    publish(plain, way, sequence);
    const bool all_here = soon([&] { return have_met(sequence); });
    wake_sleepers();
    const bool goes = all_here && alike(sequence, plain.descriptor());
    if (way.algorithm == Algorithm::windows) {
      if (goes && all_in_windows(plain.kind, 0, size_, windows_of_ranks(sequence)))
        return move_windows(plain, sequence);
      return queue(plain, Algorithm::direct, sequence);
    }
    if (way.algorithm == Algorithm::staged) {
      if (goes && all_are(CallPlaces::staged, sequence)) return move_staged(plain, sequence);
      return queue_filled(plain, sequence);
    }
    if (!goes) return queue(plain, way.algorithm, sequence);
    take_from_slots(plain, place_, slots_of(sequence));
    finish(plain, way.algorithm, sequence);
    return nullptr;
  } catch (const Error& error) {
    throw broken(error);
  } catch (const std::bad_alloc&) {
    throw broken(out_of_memory());
  }
}

void Communicator::publish(const PlainCall& plain, const PlainWay& way, std::uint64_t sequence) {
  set_chunk_bytes(chunk_bytes_, plain, size_);
  CallSlot& slot = slot_of(rank_, sequence);
  std::size_t protocol_bytes = 0;
  if (way.algorithm == Algorithm::windows) {
    places_at(rank_, sequence) = {CallPlaces::mapped, way.windows};
    protocol_bytes = CallPlaces::bytes(CallPlaces::mapped);
  } else if (way.algorithm == Algorithm::staged) {
    staging_.reserve();
    fill_round(plain, chunk_bytes_, place_, staging_);
    places_at(rank_, sequence).kind = CallPlaces::staged;
    protocol_bytes = CallPlaces::bytes(CallPlaces::staged);
  } else {
    fill_slot(plain, sizes_of(plain), place_, slot);
  }
  slot.descriptor = plain.descriptor();
  publish_slot(sequence, protocol_bytes);
  // While the flag is on its way to the others.
  if (way.algorithm != Algorithm::windows && plain.kind == CallKind::all_gather)
    keep_own(plain, chunk_bytes_.front(), place_);
}

// Not long enough for a death or a deadline to matter.
template <typename Condition>
bool Communicator::soon(Condition condition, Patience::Others others) {
  if (Patience::ended_by_giving_way() >= waits_before_a_nudge_) nudge();
  for (Patience patience(oversubscribed(), others); !patience.worn_out(); patience.relax())
    if (condition()) return true;
  return false;
}

// Two ranks on one core, though each could have its own. The more seldom, the more often it was done: what
// keeps them there may do so again.
void Communicator::nudge() {
  waits_before_a_nudge_ = std::min(2 * waits_before_a_nudge_, 1 << 20) + Patience::ended_by_giving_way();
  const int cpu = oversubscribed() ? -1 : move_to_cpu_in_turn(local_rank_);
  if (cpu >= 0) logger().debug("{}: moved to CPU {}, for others wanted the one before", prefix(), cpu);
}

std::shared_ptr<PendingCall> Communicator::move_windows(const PlainCall& plain, std::uint64_t sequence) {
  {
    const Moving moving(*membership_.segment, rank_);
    if (!moving.allowed()) return queue(plain, Algorithm::direct, sequence);
    const bool shared = shares_parts(plain.kind, 1, sequence);
    for (int distance = 0; distance < size_; ++distance) {
      const int part = (rank_ + distance) % size_;
      if (!takes_part(part, sequence, shared)) continue;
      if (peers_.empty()) map_buffers(sequence, plain.kind, 0, shared, peers_);
      part_is_done(part, sequence, move_on_windows(plain, part, chunk_bytes_, place_, peers_, scratch_));
    }
  }
  peers_.clear();  // holds no window that its owner may free
  const auto met = [this, sequence] { return all_are_at_point(sequence); };
  if (!soon(met, Patience::Others::run)) {
    auto pending = queue(plain, Algorithm::windows, sequence);
    pending->collective = make_meeting(met);
    return pending;
  }
  finish(plain, Algorithm::windows, sequence);
  return nullptr;
}

// All have met and filled the round.
std::shared_ptr<PendingCall> Communicator::move_staged(const PlainCall& plain, std::uint64_t sequence) {
  const std::uint64_t round = staging_.rounds();
  if (plain.kind != CallKind::all_gather) reduce_round(plain, chunk_bytes_, place_, staging_);
  if (plain.kind == CallKind::all_reduce) {
    staging_.reach(Staging::Point::reduced, round);
    if (!soon([&] { return staging_.all_reached(Staging::Point::reduced, round); })) {
      auto pending = queue(plain, Algorithm::staged, sequence);
      auto staged = make_staged(pending->call, place_, staging_);
      staged->begin({true, true, true});
      pending->collective = std::move(staged);
      return pending;
    }
  }
  if (plain.kind != CallKind::reduce_scatter) gather_round(plain, chunk_bytes_, place_, staging_);
  staging_.add_rounds(1);
  staging_.reach_quietly(Staging::Point::finished, round);
  finish(plain, Algorithm::staged, sequence);
  return nullptr;
}

// The same as queue(), for a call whose round was filled already.
std::shared_ptr<PendingCall> Communicator::queue_filled(const PlainCall& plain, std::uint64_t sequence) {
  auto pending = queue(plain, Algorithm::direct, sequence);
  pending->ahead = make_staged(pending->call, place_, staging_);
  return pending;
}

// Others are late, or do not agree: from here on it is a call like all others, published already.
std::shared_ptr<PendingCall> Communicator::queue(const PlainCall& plain, Algorithm algorithm,
                                                 std::uint64_t sequence) {
  auto pending = new_pending(call_of({rank_, size_}, plain));
  pending->active = true;
  pending->sequence = sequence;
  pending->algorithm = algorithm;
  pending->deadline = Deadline::after(pending->timeout);
  pending_.push_back(pending);
  return pending;
}

void Communicator::finish(const PlainCall& plain, Algorithm algorithm, std::uint64_t sequence) {
  if (algorithm == Algorithm::windows) count_moved_by_other(sequence);
  ledger_.book(ledger_.scope(), sizes_of(plain), algorithm, transport_->traffic());
  transport_->traffic().clear();
  own_lines().completed.store(sequence, std::memory_order_release);
}

CallSizes Communicator::sizes_of(const PlainCall& plain) const { return {plain.kind, 0, chunk_bytes_, {}}; }

}  // namespace rondo
