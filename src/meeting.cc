// How a call begins on one host: each rank publishes it in its slot, with what it has filled ahead or where
// its buffers are, and all wait until all have, and compare.
#include "src/communicator.h"
#include "src/engine.h"
#include "src/mismatch.h"
#include "src/moving.h"
#include "src/parts.h"

namespace rondo {

void Communicator::publish(PendingCall& head) {
  if (head.where == PendingCall::Where::host)
    publish_host(head);
  else
    publish_on_device(head);
  wake_sleepers();
}

void Communicator::publish_host(PendingCall& head) {
  head.algorithm = choose_algorithm(head.call, options_.settings.algorithm);
  std::size_t protocol_bytes = 0;
  if (head.algorithm == Algorithm::slots) {
    fill_slot(head.call, place_, slot_of(rank_, head.sequence));
  } else if (tells_of_buffers(head)) {
    protocol_bytes = publish_places(head);
  }
  slot_of(rank_, head.sequence).descriptor = head.call.descriptor();
  publish_slot(head.sequence, protocol_bytes);
}

// Returns the bytes of what the others are told of this rank's buffers.
std::size_t Communicator::publish_places(PendingCall& head) {
  CallPlaces& places = places_at(rank_, head.sequence);
  const bool both = oversubscribed() && parts_can_be_shared(head.call.kind, head.call.members);
  const CallWindows windows = membership_.windows ? windows_of(head.call, rank_, both) : CallWindows{};
  CallPlaces::Kind kind = CallPlaces::unmapped;
  if (in_windows(windows, head.call.kind, head.call.root, rank_)) {
    kind = CallPlaces::mapped;
    places.windows = windows;
  } else if (choose_way(head.call, head.algorithm, size_, {false, staging_.exists()}, options_.settings) ==
             Algorithm::staged) {
    head.ahead = make_staged(head.call, place_, staging_);
    if (head.ahead->fill_ahead()) kind = CallPlaces::staged;
  }
  places.kind = kind;
  return CallPlaces::bytes(kind);
}

// Whether the slots of all ranks say where the call's buffers lie.
bool Communicator::tells_of_buffers(const PendingCall& head) const {
  return has_ways(head.call, head.algorithm, size_, options_.settings);
}

// What goes before in the slot is written. protocol_bytes: how much of that is no payload.
void Communicator::publish_slot(std::uint64_t sequence, std::size_t protocol_bytes) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      transport_->traffic().count(ByteClass::protocol, peer, CallSlot::header_bytes + protocol_bytes);
  slot_of(rank_, sequence)
      .sequence.store(sequence, std::memory_order_release);  // releases what the slot holds
  if (oversubscribed()) count_in(membership_.segment->arrivals(), sequence);
}

// After publish_slot, at the latest before this rank goes to sleep. It may first look whether the others
// come: who sleeps waits for all of them. (The fence costs nothing once the slot's line has left, and much
// before.)
void Communicator::wake_sleepers() const {
  if (!oversubscribed()) wake_after_store();  // else who comes last wakes the others
}

// ThreadSanitizer does not follow the fence, and need not: the data are ordered by the stores before it.
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
void Communicator::wake_after_store() const {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);  // for ring()
  ring_neighbours();
}

// True when all ranks have published call number `sequence`. Acquires what they have written; sequentially
// consistent for a rank that is about to sleep.
bool Communicator::all_have_called(std::uint64_t sequence) const {
  if (oversubscribed())
    return membership_.segment->arrivals().gathered.load(std::memory_order_seq_cst) >= sequence;
  for (int peer = 0; peer < size_; ++peer)
    if (slot_of(peer, sequence).sequence.load(std::memory_order_seq_cst) != sequence) return false;
  return true;
}

void Communicator::count_in(Meeting& meeting, std::uint64_t number) {
  std::atomic<std::uint32_t>& arrived = meeting.arrived[number % 2];
  // Releases what we have written to the last one, and acquires all of that there.
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<std::uint32_t>(size_)) return;
  // Nobody counts at this place again before call number + 1 has gathered.
  arrived.store(0, std::memory_order_relaxed);
  // Releases all of that to all; sequentially consistent for ring().
  meeting.gathered.store(number, std::memory_order_seq_cst);
  ring_neighbours();
}

// The same two for a point inside a call. Numbers grow.
void Communicator::come_to_point(std::uint64_t number) {
  if (oversubscribed()) return count_in(membership_.segment->departures(), number);
  own_lines().met.store(number, std::memory_order_seq_cst);
  ring_neighbours();
}

bool Communicator::all_are_at_point(std::uint64_t number) const {
  if (oversubscribed())
    return membership_.segment->departures().gathered.load(std::memory_order_seq_cst) >= number;
  for (int peer = 0; peer < size_; ++peer)
    if (membership_.segment->rank(peer).met.load(std::memory_order_seq_cst) < number) return false;
  return true;
}

bool Communicator::shares_parts(CallKind kind, int members, std::uint64_t sequence) const {
  return oversubscribed() && parts_can_be_shared(kind, members, size_, windows_of_ranks(sequence));
}

// Each part has one rank for which this is true; none once the communicator has failed, for a peer that has
// failed waits for no more than the part under way.
bool Communicator::takes_part(int part, std::uint64_t sequence, bool shared) const {
  if (!may_move(*membership_.segment)) return false;
  return shared ? begin_part(*membership_.segment, part, sequence) : part == rank_;
}

void Communicator::part_is_done(int part, std::uint64_t sequence, const PartBytes& moved) {
  if (part == rank_)
    count_part(moved);
  else
    leave_note(*membership_.segment, part, sequence, moved);
  come_to_point(sequence);
}

void Communicator::count_part(const PartBytes& moved) {
  Traffic& traffic = transport_->traffic();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    traffic.count(ByteClass::payload, peer, moved.to_each);
    traffic.count_fetched(peer, moved.from_each);
  }
}

void Communicator::count_moved_by_other(std::uint64_t sequence) {
  if (const auto moved = note_of(*membership_.segment, rank_, sequence)) count_part(*moved);
}

// all_have_called(), and takes note of it.
bool Communicator::have_met(std::uint64_t sequence) {
  if (!all_have_called(sequence)) return false;
  staging_.all_have_met();
  return true;
}

CallSlot& Communicator::slot_of(int rank, std::uint64_t sequence) const {
  return membership_.segment->slot(rank, sequence);
}

SlotsOfRanks Communicator::slots_of(std::uint64_t sequence) const { return {*membership_.segment, sequence}; }

CallPlaces& Communicator::places_at(int rank, std::uint64_t sequence) const {
  return *reinterpret_cast<CallPlaces*>(slot_of(rank, sequence).few);
}

bool Communicator::alike(std::uint64_t sequence, const CallDescriptor& mine) const {
  for (int peer = 0; peer < size_; ++peer)
    if (slot_of(peer, sequence).descriptor != mine) return false;
  return true;
}

// All ranks compare the same descriptors, so all come to the same verdict, before a byte moves: the call
// fails on each of them, and the communicator stays whole.
std::optional<Error> Communicator::mismatch(const PendingCall& head) const {
  const auto differs = difference_of(head);
  if (!differs) return std::nullopt;
  return Error(ErrorKind::invalid_usage,
               fmt::format("{}, call {} ({}): {}", prefix(), head.sequence, head.call.text(), *differs));
}

std::optional<std::string> Communicator::difference_of(const PendingCall& head) const {
  if (head.check) return difference(head.check->descriptors());
  if (far_ || alike(head.sequence, slot_of(rank_, head.sequence).descriptor)) return std::nullopt;
  std::vector<CallDescriptor> descriptors;
  for (int rank = 0; rank < size_; ++rank)
    descriptors.push_back(slot_of(rank, head.sequence).descriptor.unmarked());
  return difference(descriptors);
}

}  // namespace rondo
