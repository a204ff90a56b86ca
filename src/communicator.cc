#include "src/communicator.h"

#include <algorithm>
#include <cstring>

#include "src/engine.h"
#include "src/log.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

std::string list(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// A field of a descriptor that must agree, and how to show it.
struct Field {
  const char* name;
  std::function<std::uint64_t(const CallDescriptor&)> value;
  std::function<std::string(const CallDescriptor&)> text;
};

const std::vector<Field>& fields() {
  using D = const CallDescriptor&;
  const auto number = [](auto value) { return [value](D d) { return fmt::format("{}", value(d)); }; };
  const auto count = [](D d) { return d.count; };
  const auto members = [](D d) -> std::uint64_t { return d.members; };
  const auto root = [](D d) -> std::uint64_t { return static_cast<std::uint64_t>(d.root); };
  // Never destroyed: the progress thread may outlive static objects.
  static const auto& all = *new std::vector<Field>{
      {"call", [](D d) -> std::uint64_t { return d.kind; },
       [](D d) { return std::string(name_of(static_cast<CallKind>(d.kind))); }},
      {"type", [](D d) -> std::uint64_t { return d.type; },
       [](D d) { return std::string(name_of(static_cast<DataType>(d.type))); }},
      {"operator", [](D d) -> std::uint64_t { return d.op; },
       [](D d) { return std::string(name_of(static_cast<ReduceOp>(d.op))); }},
      {"number of calls in the group", members, number(members)},
      {"count", count, number(count)},
      {"root", root, number(root)},
      {"counts of the ranks or of the group's calls", [](D d) { return d.shape; },
       [](D d) { return fmt::format("#{:x}", d.shape); }},
      {"factor", [](D d) { return d.scalar; }, [](D d) { return fmt::format("bits {:#x}", d.scalar); }}};
  return all;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::create(MeetingPlace place, int rank, int size,
                                                   CommunicatorOptions options) {
  set_log_level(options.settings.debug);
  const Deadline deadline = Deadline::after(options.settings.timeout);
  const auto rendezvous = meet(std::move(place), rank, size, deadline);
  Membership membership = join_communicator(*rendezvous, rank, size, options.settings, deadline);
  std::shared_ptr<Communicator> made;
  together(*rendezvous, "making the communicator", deadline,
           [&] { made = std::make_shared<Communicator>(std::move(membership), std::move(options)); });
  return made;
}

std::shared_ptr<Communicator> Communicator::create(const LaunchEnvironment& launch,
                                                   CommunicatorOptions options) {
  return create(meeting_place(launch), launch.rank, launch.size, std::move(options));
}

Communicator::Communicator(Membership membership, CommunicatorOptions options)
    : membership_(std::move(membership)),
      options_(std::move(options)),
      rank_(membership_.rank),
      size_(membership_.size),
      generation_(fork_generation()),
      transport_(make_shm_transport(membership_.segment, rank_, size_)),
      place_{rank_,
             size_,
             *transport_,
             options_.settings.slice_bytes,
             options_.settings.windows_streaming_above,
             options_.settings.staged_streaming_above},
      staging_(*membership_.segment, rank_, size_, [this] { wake_after_store(); }),
      ledger_(rank_, size_, options_.settings.strict, mutex_),
      // Goes on where the segment stands: at zero, when it is new.
      sequence_(membership_.segment->rank(rank_).completed) {
  logger().debug("{}: ready, {}", prefix(),
                 membership_.oversubscribed ? "more ranks than cores" : "a core a rank");
}

Communicator::~Communicator() {
  if (fork_generation() == generation_) leave();
}

void Communicator::leave() {
  membership_.segment->rank(rank_).left.store(1, std::memory_order_seq_cst);
  ring_peers();
}

std::string Communicator::prefix() const {
  return options_.name.empty() ? fmt::format("rank {} of {}", rank_, size_)
                               : fmt::format("rank {} of {} ({})", rank_, size_, options_.name);
}

void Communicator::need_own_process() const {
  if (fork_generation() != generation_)
    fail(ErrorKind::invalid_usage, "{}: a forked child cannot use its parent's communicator", prefix());
}

std::shared_ptr<PendingCall> Communicator::new_pending(Call call) {
  auto pending = std::make_shared<PendingCall>();
  pending->communicator = shared_from_this();
  pending->call = std::move(call);
  pending->scope = ledger_.scope();
  pending->timeout = timeout();
  return pending;
}

std::shared_ptr<PendingCall> Communicator::start(Call call, std::shared_ptr<PendingCall> after) {
  need_own_process();
  check_messages_to_self(call, rank_);
  auto pending = new_pending(std::move(call));
  pending->after = std::move(after);
  const Lock lock(mutex_);
  if (error_)
    fail(ErrorKind::aborted, "{}: the communicator has failed before: {}", prefix(), error_->what());
  pending_.push_back(pending);
  return pending;
}

void Communicator::run(Call call) { wait_for(*start(std::move(call))); }

bool Communicator::idle() const {
  const Lock lock(mutex_);
  return pending_.empty();
}

std::optional<Error> Communicator::error() {
  const Lock lock(mutex_);
  failure_told();
  return error_;
}

bool Communicator::progress(IfBusy if_busy) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (if_busy == IfBusy::wait)
    lock.lock();
  else if (!lock.try_lock())
    return false;
  bool moved = false;
  while (!pending_.empty()) {
    if (broken_off()) return true;
    // Held by its own list, since ending it lets the queue's hold go.
    const std::shared_ptr<PendingCall> head = pending_.front();
    moved |= transport_->progress();
    try {
      if (!step(*head)) return moved;
      finish(*head);
    } catch (const Error& error) {
      break_off(error);
    } catch (const std::bad_alloc&) {
      break_off(Error(ErrorKind::system, fmt::format("rank {} is out of memory", rank_)));
    }
    moved = true;
  }
  return moved;
}

// True when the call is complete.
bool Communicator::step(PendingCall& head) {
  if (!head.active) {
    if (head.after && !head.after->done.load(std::memory_order_acquire)) return false;
    activate(head);
  }
  if (!head.collective) {
    if (head.sequence != 0) {
      if (!all_have_called(head.sequence)) return false;
      head.error = mismatch(head);
      if (head.error) return true;
    }
    head.collective = make(head);
    transport_->progress();
  }
  return head.collective->step();
}

void Communicator::activate(PendingCall& head) {
  head.active = true;
  head.deadline = Deadline::after(head.timeout);
  head.after = nullptr;
  // Messages concern two ranks only: the others know nothing of them.
  if (head.call.kind == CallKind::messages) return;
  head.sequence = ++sequence_;
  publish(head);
}

void Communicator::publish(PendingCall& head) {
  head.algorithm = choose_algorithm(head.call, options_.settings.algorithm);
  std::size_t protocol_bytes = 0;
  if (head.algorithm == Algorithm::slots) {
    fill_slot(head.call, place_, slot_of(rank_, head.sequence).data);
  } else if (tells_of_buffers(head)) {
    windows_at(rank_, head.sequence) = membership_.windows ? windows_of(head.call, rank_) : CallWindows{};
    protocol_bytes = sizeof(CallWindows);
  }
  slot_of(rank_, head.sequence).descriptor = head.call.descriptor();
  publish_slot(head.sequence, protocol_bytes);
  wake_sleepers();
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
  ring_peers();
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
  ring_peers();
}

// The same two for a point inside a call. Numbers grow.
void Communicator::come_to_point(std::uint64_t number) {
  if (oversubscribed()) return count_in(membership_.segment->departures(), number);
  membership_.segment->rank(rank_).met.store(number, std::memory_order_seq_cst);
  ring_peers();
}

bool Communicator::all_are_at_point(std::uint64_t number) const {
  if (oversubscribed())
    return membership_.segment->departures().gathered.load(std::memory_order_seq_cst) >= number;
  for (int peer = 0; peer < size_; ++peer)
    if (membership_.segment->rank(peer).met.load(std::memory_order_seq_cst) < number) return false;
  return true;
}

std::unique_ptr<Collective> Communicator::make(PendingCall& head) {
  if (head.sequence == 0) head.algorithm = choose_algorithm(head.call, options_.settings.algorithm);
  const Ways possible{
      tells_of_buffers(head) && all_in_windows(head.call, size_, windows_of_ranks(head.sequence)),
      staging_.exists()};
  head.algorithm = choose_way(head.call, head.algorithm, size_, possible, options_.settings);
  if (head.algorithm == Algorithm::slots) return make_slots(head.call, place_, slots_of(head.sequence));
  if (head.algorithm == Algorithm::windows) {
    std::vector<PeerBuffers> peers;
    map_buffers(head.sequence, peers);
    return make_windows(head.call, place_, std::move(peers), meet_again(head.sequence));
  }
  if (head.algorithm == Algorithm::staged) return make_staged(head.call, place_, staging_);
  return make_collective(head.call, head.algorithm, place_);
}

MeetAgain Communicator::meet_again(std::uint64_t sequence) {
  return [this, sequence, come = false]() mutable {
    if (!std::exchange(come, true)) come_to_point(sequence);
    return all_are_at_point(sequence);
  };
}

WindowsOfRanks Communicator::windows_of_ranks(std::uint64_t sequence) const {
  return [this, sequence](int rank) -> const CallWindows& { return windows_at(rank, sequence); };
}

void Communicator::map_buffers(std::uint64_t sequence, std::vector<PeerBuffers>& peers) const {
  peers.resize(static_cast<std::size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) {
    const CallWindows& windows = windows_at(peer, sequence);
    PeerBuffers& buffers = peers[static_cast<std::size_t>(peer)];
    buffers.input = map_buffer(peer, windows.input.window, buffers.input_window);
    buffers.output = map_buffer(peer, windows.output.window, buffers.output_window);
  }
}

std::byte* Communicator::map_buffer(int rank, const WindowReference& reference,
                                    std::shared_ptr<const MappedWindow>& window) const {
  if (reference.number == 0) return nullptr;
  const ProcessIdentity& owner = membership_.processes[static_cast<std::size_t>(rank)];
  if (owner == membership_.processes[static_cast<std::size_t>(rank_)])
    return reinterpret_cast<std::byte*>(reference.address);
  window = map_window(owner, reference);
  return window->base() + reference.offset;
}

void Communicator::ring_peers() const {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) ring(membership_.segment->rank(peer).bell);
}

CallSlot& Communicator::slot_of(int rank, std::uint64_t sequence) const {
  return membership_.segment->slot(rank, sequence);
}

SlotsOfRanks Communicator::slots_of(std::uint64_t sequence) const { return {*membership_.segment, sequence}; }

CallWindows& Communicator::windows_at(int rank, std::uint64_t sequence) const {
  return *reinterpret_cast<CallWindows*>(slot_of(rank, sequence).data);
}

bool Communicator::alike(std::uint64_t sequence, const CallDescriptor& mine) const {
  for (int peer = 0; peer < size_; ++peer)
    if (slot_of(peer, sequence).descriptor != mine) return false;
  return true;
}

// All ranks compare the same descriptors, so all come to the same verdict, before a byte moves: the call
// fails on each of them, and the communicator stays whole.
std::optional<Error> Communicator::mismatch(const PendingCall& head) const {
  const auto descriptor = [&](int rank) -> const CallDescriptor& {
    return slot_of(rank, head.sequence).descriptor;
  };
  if (alike(head.sequence, descriptor(rank_))) return std::nullopt;
  for (const Field& field : fields()) {
    std::vector<std::pair<std::string, std::vector<int>>> camps;
    for (int rank = 0; rank < size_; ++rank) {
      const auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& known) {
        return field.value(descriptor(known.second.front())) == field.value(descriptor(rank));
      });
      if (camp != camps.end())
        camp->second.push_back(rank);
      else
        camps.push_back({field.text(descriptor(rank)), {rank}});
    }
    if (camps.size() == 1) continue;
    std::vector<std::string> texts;
    for (const auto& [value, ranks] : camps) texts.push_back(fmt::format("{}: {}", list(ranks), value));
    return Error(ErrorKind::invalid_usage,
                 fmt::format("{}, call {} ({}): {} differs between ranks: {}", prefix(), head.sequence,
                             head.call.text(), field.name, fmt::join(texts, "; ")));
  }
  return std::nullopt;
}

void Communicator::finish(PendingCall& head) {
  Traffic& moved = transport_->traffic();
  if (head.error)
    ledger_.book_refused(moved);
  else
    ledger_.book(head.scope, head.call.sizes(), head.algorithm, moved);
  moved.clear();
  if (head.sequence != 0)
    membership_.segment->rank(rank_).completed.store(head.sequence, std::memory_order_release);
  end(head, head.error);
}

void Communicator::end(PendingCall& head, std::optional<Error> error) {
  if (error) logger().debug("{}", error->what());
  head.collective = nullptr;
  head.after = nullptr;  // else a long stream of failed calls would be one long chain
  head.error = std::move(error);
  // Releases the error and the call's output to whoever waits.
  head.done.store(true, std::memory_order_seq_cst);
  pending_.pop_front();
  // A thread that waits while another drives sleeps at our own bell.
  ring(bell());
}

// Has this or another rank ended the communicator?
bool Communicator::failure_told() {
  if (error_) return true;
  const Failure& failure = membership_.segment->failure();
  // Acquires the text.
  if (failure.state.load(std::memory_order_acquire) != Failure::told) return false;
  error_ = Error(static_cast<ErrorKind>(failure.kind), fmt::format("{}: {}", prefix(), failure.text));
  return true;
}

bool Communicator::broken_off() {
  if (!failure_told()) return false;
  fail_pending(*error_);
  return true;
}

void Communicator::break_off(const Error& error, std::string call) {
  // Who told us of a failure may have ended since: that is not the cause.
  if (broken_off()) return;
  if (!pending_.empty()) call = pending_.front()->call.text();
  const Error named(error.kind(), call.empty() ? fmt::format("{}: {}", prefix(), error.what())
                                               : fmt::format("{}, {}: {}", prefix(), call, error.what()));
  error_ = named;
  tell_failure(named);
  fail_pending(named);
}

void Communicator::fail_pending(const Error& error) {
  while (!pending_.empty()) {
    const std::shared_ptr<PendingCall> head = pending_.front();
    end(*head, error);
  }
}

void Communicator::tell_failure(const Error& error) {
  Failure& failure = membership_.segment->failure();
  std::uint32_t none = Failure::none;
  if (failure.state.compare_exchange_strong(none, Failure::being_written, std::memory_order_acquire)) {
    failure.rank = rank_;
    failure.kind = static_cast<std::uint32_t>(error.kind());
    std::strncpy(failure.text, error.what(), sizeof failure.text - 1);
    // Releases the text; sequentially consistent for ring().
    failure.state.store(Failure::told, std::memory_order_seq_cst);
  }
  ring_peers();
}

void Communicator::abort() {
  need_own_process();
  const Lock lock(mutex_);
  break_off(Error(ErrorKind::aborted, fmt::format("rank {} aborted the communicator", rank_)));
}

std::chrono::nanoseconds Communicator::patience() const {
  // A dead peer and a fresh failure show within this time.
  const std::chrono::nanoseconds most = 50ms;
  const Lock lock(mutex_);
  return pending_.empty() ? most : pending_.front()->deadline.left(most);
}

void Communicator::check_health() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || pending_.empty()) return;
  const std::shared_ptr<PendingCall> head = pending_.front();
  if (!head->active) return;
  try {
    if (head->deadline.passed())
      fail(ErrorKind::timeout, "timed out after {} s{}", static_cast<double>(head->timeout.count()) / 1000,
           late_ranks(*head));
    need_live_peers(*head);
  } catch (const Error& error) {
    break_off(error);
  }
}

std::string Communicator::late_ranks(const PendingCall& head) const {
  if (head.sequence == 0) return "";
  std::vector<int> late;
  for (int peer = 0; peer < size_; ++peer)
    if (slot_of(peer, head.sequence).sequence.load(std::memory_order_acquire) != head.sequence)
      late.push_back(peer);
  if (late.empty()) return "; all ranks have made this call";
  return fmt::format("; {} {} not made this call (number {})", list(late), late.size() == 1 ? "has" : "have",
                     head.sequence);
}

// A peer that ended after its part of the call was done has hurt nobody: so look whether it lives before what
// it has done.
void Communicator::need_live_peers(const PendingCall& head) const {
  for (int peer = 0; peer < size_; ++peer) {
    const auto& process = membership_.peers[static_cast<std::size_t>(peer)];
    const bool died = process && !process->alive();
    const bool left = membership_.segment->rank(peer).left.load(std::memory_order_acquire) != 0;
    if (!(died || left) || !waits_for(head, peer)) continue;
    transport_->progress();
    if (head.collective && (head.collective->step() || !waits_for(head, peer))) continue;
    if (died)
      fail(ErrorKind::remote, "rank {} (process {}) has died", peer,
           membership_.processes[static_cast<std::size_t>(peer)].pid);
    fail(ErrorKind::remote, "rank {} has destroyed the communicator", peer);
  }
}

bool Communicator::waits_for(const PendingCall& head, int peer) const {
  if (head.sequence == 0) return !head.collective || head.collective->waits_for(peer);
  return membership_.segment->rank(peer).completed.load(std::memory_order_acquire) < head.sequence;
}

std::shared_ptr<Communicator> Communicator::split(int color, int key, CommunicatorOptions options) {
  struct Card {
    std::int32_t color, key, rank;
    std::int32_t unused;
    UniqueId id;
  };
  std::vector<Card> cards(static_cast<std::size_t>(size_));
  cards[static_cast<std::size_t>(rank_)] = {color, key, rank_, 0, UniqueId::make()};
  Call call;
  call.kind = CallKind::all_gather;
  call.count = sizeof(Card);
  call.chunk_bytes.assign(cards.size(), sizeof(Card));
  call.input.resize(cards.size());
  for (Card& card : cards) call.output.push_back({{reinterpret_cast<std::byte*>(&card), sizeof(Card)}});
  call.input[static_cast<std::size_t>(rank_)] = call.output[static_cast<std::size_t>(rank_)];
  {
    const LedgerScope scope(ledger_, "split");
    run(std::move(call));
  }
  if (color < 0) return nullptr;
  std::erase_if(cards, [&](const Card& card) { return card.color != color; });
  std::sort(cards.begin(), cards.end(),
            [](const Card& a, const Card& b) { return std::pair(a.key, a.rank) < std::pair(b.key, b.rank); });
  const auto mine =
      std::find_if(cards.begin(), cards.end(), [&](const Card& card) { return card.rank == rank_; });
  return create(cards.front().id.meeting_place(), static_cast<int>(mine - cards.begin()),
                static_cast<int>(cards.size()), std::move(options));
}

}  // namespace rondo
