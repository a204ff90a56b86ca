// Calls of the commonest kinds, small or on windows, carried out at once where nothing is under way and all
// ranks come soon: no queue, no lists, no memory taken. Else they become pending calls like all others.
#include <limits>

#include "src/communicator.h"
#include "src/engine.h"
#include "src/moving.h"
#include "src/patience.h"

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

Communicator::PlainWay Communicator::plain_way(const PlainCall& plain) const {
  constexpr std::size_t most_count =
      std::numeric_limits<std::uint32_t>::max();  // whose bytes do not overflow
  if (!plain_at_once_ || plain.count > most_count) return {};
  if (plain.kind == CallKind::barrier) return {Algorithm::direct};
  if (plain.count > 0 && (plain.send == nullptr || plain.receive == nullptr)) return {};
  const Algorithm algorithm =
      choose_algorithm(plain.kind, input_bytes(plain, size_), options_.settings.algorithm);
  if (algorithm == Algorithm::slots) return {Algorithm::slots};
  if (algorithm != Algorithm::direct || !membership_.windows || size_ == 1) return {};
  const CallWindows windows = windows_of(plain, size_);
  if (!in_windows(windows, plain.kind)) return {};
  return {Algorithm::windows, windows};
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
    const bool all_here = soon([&] { return all_have_called(sequence); });
    wake_sleepers();
    const bool goes = all_here && alike(sequence, plain.descriptor());
    if (way.algorithm == Algorithm::windows) {
      if (goes && all_in_windows(plain.kind, 0, size_, windows_of_ranks(sequence)))
        return move_windows(plain, sequence);
      return queue(plain, Algorithm::direct, sequence);
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
    windows_at(rank_, sequence) = way.windows;
    protocol_bytes = sizeof(CallWindows);
  } else {
    fill_slot(plain, sizes_of(plain), place_, slot.data);
  }
  slot.descriptor = plain.descriptor();
  publish_slot(sequence, protocol_bytes);
}

// Not long enough for a death or a deadline to matter.
template <typename Condition>
bool Communicator::soon(Condition condition) const {
  for (Patience patience(oversubscribed()); !patience.worn_out(); patience.relax())
    if (condition()) return true;
  return false;
}

std::shared_ptr<PendingCall> Communicator::move_windows(const PlainCall& plain, std::uint64_t sequence) {
  map_buffers(sequence, peers_);
  {
    const Moving moving(*membership_.segment, rank_);
    if (!moving.allowed()) return queue(plain, Algorithm::direct, sequence);
    move_on_windows(plain, chunk_bytes_, place_, peers_, scratch_);
  }
  peers_.clear();  // holds no window that its owner may free
  come_to_point(sequence);
  const auto met = [this, sequence] { return all_are_at_point(sequence); };
  if (!soon(met)) {
    auto pending = queue(plain, Algorithm::windows, sequence);
    pending->collective = make_meeting(met);
    return pending;
  }
  finish(plain, Algorithm::windows, sequence);
  return nullptr;
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
  ledger_.book(ledger_.scope(), sizes_of(plain), algorithm, transport_->traffic());
  transport_->traffic().clear();
  own_lines().completed.store(sequence, std::memory_order_release);
}

CallSizes Communicator::sizes_of(const PlainCall& plain) const { return {plain.kind, 0, chunk_bytes_, {}}; }

}  // namespace rondo
