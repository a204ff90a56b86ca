#include "src/communicator.h"

#include <algorithm>
#include <thread>

#include "src/engine.h"
#include "src/layouts.h"
#include "src/log.h"
#include "src/moving.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

// How long a rank that leaves waits for ranks on other hosts to have read what it sent.
constexpr std::chrono::milliseconds most_farewell = 30s;

std::unique_ptr<Transport> make_transport(const Membership& membership) {
  const Hosts& hosts = membership.hosts;
  const int rank = membership.rank;
  if (!membership.network) return make_shm_transport(membership.segment, rank, membership.size);
  auto local = make_shm_transport(membership.segment, hosts.place_of(rank),
                                  static_cast<int>(hosts.neighbours(rank).size()));
  return make_mixed_transport(std::move(local), *membership.network, hosts, rank);
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
  if (made->membership_.network) keep_listening(*made);
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
      local_rank_(membership_.network ? membership_.hosts.place_of(rank_) : rank_),
      local_size_(membership_.network ? static_cast<int>(membership_.hosts.neighbours(rank_).size()) : size_),
      generation_(fork_generation()),
      transport_(make_transport(membership_)),
      ring_(membership_.network ? membership_.hosts.ring() : std::vector<int>()),
      place_{rank_,
             size_,
             *transport_,
             options_.settings.slice_bytes,
             options_.settings.windows_streaming_above,
             options_.settings.staged_streaming_above,
             ring_},
      staging_(*membership_.segment, local_rank_, local_size_, [this] { wake_after_store(); }),
      ledger_(rank_, size_, options_.settings.strict, mutex_, {place_.right(), &membership_.hosts}),
      // Goes on where the segment stands: at zero, when it is new.
      sequence_(own_lines().completed),
      plain_at_once_(!membership_.network && size_ <= most_plain_ranks) {
  if (membership_.network)
    far_ = std::make_unique<FarRanks>(*membership_.network, membership_.hosts, rank_,
                                      [this](int rank, const Error& error) { write_failure(rank, error); });
  logger().debug("{}: ready, {}", prefix(),
                 membership_.oversubscribed ? "more ranks than cores" : "a core a rank");
}

Communicator::~Communicator() {
  if (membership_.network) stop_listening(*this);
  if (fork_generation() == generation_)
    leave_quietly();
  else
    leave_to_the_parent();
}

// Connections and devices are the parent's: a child that closed them would disturb it.
void Communicator::leave_to_the_parent() {
  [[maybe_unused]] const Network* network = membership_.network.release();
  [[maybe_unused]] const auto* memories =
      std::make_unique<std::shared_ptr<DeviceMemories>>(std::move(device_memories_)).release();
}

void Communicator::leave_quietly() {
  try {
    leave();
  } catch (const std::exception& error) {
    logger().info("{}: leaving: {}", prefix(), error.what());
  }
}

void Communicator::leave() {
  own_lines().left.store(1, std::memory_order_seq_cst);
  ring_neighbours();
  close_devices();
  if (!far_) return;
  {
    const Lock lock(mutex_);
    if (failure_told() || !far_->say_goodbye()) return;
  }
  const auto time = timeout().count() == 0 ? most_farewell : std::min(timeout(), most_farewell);
  const Deadline deadline = Deadline::after(time);
  for (bool moved = true; !farewell_is_over(moved) && !deadline.passed();)
    if (!moved) std::this_thread::sleep_for(100us);
}

bool Communicator::farewell_is_over(bool& moved) {
  const Lock lock(mutex_);
  return failure_told() || far_->all_have_answered(moved);
}

void Communicator::listen() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !pending_.empty()) return;
  // After a failure too: words about it may still be on their way, and others want a farewell.
  try {
    membership_.network->progress();
  } catch (const Error& error) {
    break_off(error);
  } catch (const std::bad_alloc&) {
    break_off(out_of_memory());
  }
}

Error Communicator::out_of_memory() const {
  return Error(ErrorKind::system, fmt::format("rank {} is out of memory", rank_));
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

std::shared_ptr<PendingCall> Communicator::start(Call call, std::shared_ptr<PendingCall> after,
                                                 std::shared_ptr<DeviceCall> on_device) {
  need_own_process();
  check_messages_to_self(call, rank_);
  auto pending = new_pending(std::move(call));
  pending->after = std::move(after);
  pending->on_device = std::move(on_device);
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

std::optional<Error> Communicator::take_refusal() {
  const Lock lock(mutex_);
  return std::exchange(refusal_, std::nullopt);
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
    try {
      // A call that begins sends first. What it sends may be done at once, and is settled in the next round.
      if (head->active) moved |= transport_->progress();
      const bool begins = !head->collective;
      if (!step(*head)) return moved || (begins && head->collective);
      finish(*head);
    } catch (const Error& error) {
      break_off(error);
    } catch (const std::bad_alloc&) {
      break_off(out_of_memory());
    }
    moved = true;
  }
  return moved;
}

// True when the call is complete.
bool Communicator::step(PendingCall& head) {
  if (!head.active) {
    if (head.after && !head.after->done.load(std::memory_order_acquire)) return false;
    if (head.on_device && !head.on_device->has_come()) return false;
    activate(head);
  }
  if (!head.collective) {
    if (head.sequence != 0) {
      if (!has_settled(head)) return false;
      if (head.error) return true;
    }
    head.collective = make(head);
    if (step_collective(head)) return true;
    transport_->progress();
  }
  return step_collective(head);
}

bool Communicator::step_collective(const PendingCall& head) const {
  if (head.algorithm != Algorithm::windows || head.where != PendingCall::Where::host)
    return head.collective->step();
  const Moving moving(*membership_.segment, local_rank_);
  return moving.allowed() && head.collective->step();
}

void Communicator::activate(PendingCall& head) {
  head.active = true;
  head.deadline = Deadline::after(head.timeout);
  head.after = nullptr;
  // Messages concern two ranks only: the others know nothing of them.
  if (head.call.kind == CallKind::messages) return;
  head.sequence = ++sequence_;
  if (head.on_device && head.on_device->buffers() != nullptr) head.where = PendingCall::Where::device;
  if (far_)
    begin_between_hosts(head);
  else
    publish(head);
}

// Nobody waits for anybody: the choice is a function of the call's arguments, and the data come with it.
void Communicator::begin_between_hosts(PendingCall& head) {
  own_lines().met.store(head.sequence, std::memory_order_release);  // for late_ranks()
  far_->begin(head.sequence);
  if (options_.settings.check) head.check = std::make_unique<CheckRound>(head.call.descriptor(), place_);
}

std::unique_ptr<Collective> Communicator::make(PendingCall& head) {
  if (far_) {
    head.algorithm = choose_between_hosts(head.call, options_.settings.algorithm, membership_.hosts);
    return head.call.kind == CallKind::barrier
               ? make_message_barrier(place_)
               : make_collective(head.call, head.algorithm, place_, membership_.hosts);
  }
  if (head.where != PendingCall::Where::host) return make_on_devices(head);
  if (head.sequence == 0) head.algorithm = choose_algorithm(head.call, options_.settings.algorithm);
  const Ways possible{
      tells_of_buffers(head) && all_in_windows(head.call, size_, windows_of_ranks(head.sequence)),
      staging_.exists()};
  head.algorithm = choose_way(head.call, head.algorithm, size_, possible, options_.settings);
  if (head.algorithm == Algorithm::slots) return make_slots(head.call, place_, slots_of(head.sequence));
  if (head.algorithm == Algorithm::windows) {
    return make_windows(head.call, place_, parts_of(head));
  }
  if (head.algorithm == Algorithm::staged) return make_staged_call(head);
  return make_collective(head.call, head.algorithm, place_, membership_.hosts);
}

std::unique_ptr<Collective> Communicator::make_staged_call(PendingCall& head) {
  std::unique_ptr<StagedCall> staged =
      head.ahead ? std::move(head.ahead) : make_staged(head.call, place_, staging_);
  staged->begin({places_at(rank_, head.sequence).kind == CallPlaces::staged,
                 all_are(CallPlaces::staged, head.sequence), false});
  return staged;
}

bool Communicator::all_are(CallPlaces::Kind kind, std::uint64_t sequence) const {
  for (int rank = 0; rank < size_; ++rank)
    if (places_at(rank, sequence).kind != kind) return false;
  return true;
}

PartsOfCall Communicator::parts_of(const PendingCall& head) {
  const std::uint64_t sequence = head.sequence;
  const bool shared = shares_parts(head.call.kind, head.call.members, sequence);
  return {[=, this, kind = head.call.kind, root = head.call.root](std::vector<PeerBuffers>& peers) {
            map_buffers(sequence, kind, root, shared, peers);
          },
          [=, this](int part) { return takes_part(part, sequence, shared); },
          [=, this](int part, const PartBytes& moved) { part_is_done(part, sequence, moved); },
          [=, this] { return all_are_at_point(sequence); }};
}

MeetAgain Communicator::meet_again(std::uint64_t sequence) {
  return [this, sequence, come = false]() mutable {
    if (!std::exchange(come, true)) come_to_point(sequence);
    return all_are_at_point(sequence);
  };
}

WindowsOfRanks Communicator::windows_of_ranks(std::uint64_t sequence) const {
  return [this, sequence](int rank) -> const CallWindows& {
    static constexpr CallWindows none{};
    const CallPlaces& places = places_at(rank, sequence);
    return places.kind == CallPlaces::mapped ? places.windows : none;
  };
}

void Communicator::map_buffers(std::uint64_t sequence, CallKind kind, int root, bool shared,
                               std::vector<PeerBuffers>& peers) const {
  peers.resize(static_cast<std::size_t>(size_));
  const WindowsOfRanks windows_of_rank = windows_of_ranks(sequence);
  for (int peer = 0; peer < size_; ++peer) {
    const CallWindows& windows = windows_of_rank(peer);
    const Needs needs = shared ? Needs{true, true} : needs_of(kind, root, peer);
    PeerBuffers& buffers = peers[static_cast<std::size_t>(peer)];
    if (needs.input) buffers.input = map_buffer(peer, windows.input.window, buffers.input_window);
    if (needs.output) buffers.output = map_buffer(peer, windows.output.window, buffers.output_window);
  }
}

std::byte* Communicator::map_buffer(int rank, const WindowReference& reference,
                                    std::shared_ptr<const MappedWindow>& window) const {
  window.reset();
  if (reference.number == 0) return nullptr;
  const ProcessIdentity& owner = membership_.processes[static_cast<std::size_t>(rank)];
  if (owner == membership_.processes[static_cast<std::size_t>(rank_)])
    return reinterpret_cast<std::byte*>(reference.address);
  window = map_window(owner, reference);
  return window->base() + reference.offset;
}

void Communicator::ring_neighbours() const {
  for (int place = 0; place < local_size_; ++place)
    if (place != local_rank_) membership_.segment->ring(place);
}

int Communicator::neighbour(int place) const {
  return far_ ? membership_.hosts.neighbours(rank_)[static_cast<std::size_t>(place)] : place;
}

void Communicator::finish(PendingCall& head) {
  Traffic& moved = transport_->traffic();
  if (head.algorithm == Algorithm::windows) count_moved_by_other(head.sequence);
  if (head.error)
    ledger_.book_refused(moved);
  else
    ledger_.book(head.scope, head.call.sizes(), head.algorithm, moved,
                 head.where == PendingCall::Where::host ? Memory::host : Memory::device,
                 head.on_device ? head.on_device->copied() : CopiedBytes{});
  moved.clear();
  if (head.sequence != 0) own_lines().completed.store(head.sequence, std::memory_order_release);
  if (head.on_device && head.error && !refusal_) refusal_ = head.error;
  end(head, head.error);
}

void Communicator::end(PendingCall& head, std::optional<Error> error) {
  if (error) logger().debug("{}", error->what());
  head.collective = nullptr;
  head.ahead = nullptr;
  head.check = nullptr;
  head.after = nullptr;  // else a long stream of failed calls would be one long chain
  head.error = std::move(error);
  if (head.on_device) head.on_device->end(!head.error);
  head.on_device = nullptr;
  // Releases the error and the call's output to whoever waits.
  head.done.store(true, std::memory_order_seq_cst);
  pending_.pop_front();
  // A thread that waits while another drives sleeps at our own bell.
  membership_.segment->ring(local_rank_);
}

std::chrono::nanoseconds Communicator::patience() const {
  // A dead peer and a fresh failure show within this time.
  const std::chrono::nanoseconds most = 50ms;
  const Lock lock(mutex_);
  return pending_.empty() ? most : pending_.front()->deadline.left(most);
}

int Communicator::network_descriptor() const {
  return membership_.network ? membership_.network->descriptor() : -1;
}

bool Communicator::arm_network() const {
  const Lock lock(mutex_);
  return membership_.network->arm();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key, CommunicatorOptions options) {
  struct Card {
    std::int32_t color, key, rank;
    std::int32_t port;  // where this rank would listen for the others, if they are on several hosts
    UniqueId id;
    std::array<char, 64> address;
  };
  std::vector<Card> cards(static_cast<std::size_t>(size_));
  Card& own = cards[static_cast<std::size_t>(rank_)];
  own = {color, key, rank_, 0, UniqueId::make(), {}};
  Fd listener;
  if (far_ && color >= 0) {
    try {
      listener = listen_on({.unix_name = {}, .host = membership_.address, .port = 0});
      own.port = bound_port(listener);
    } catch (const Error& error) {
      logger().warn("{}: {}", prefix(), error.what());  // the others are told by port 0
    }
    membership_.address.copy(own.address.data(), own.address.size() - 1);
  }
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
  const auto rank = static_cast<int>(mine - cards.begin());
  MeetingPlace place = cards.front().id.meeting_place();
  if (far_ && cards.front().port == 0)
    fail(ErrorKind::system, "{}: rank {} could not listen for the others of colour {}", prefix(),
         cards.front().rank, color);
  if (far_) {
    place.endpoint = {.unix_name = {}, .host = cards.front().address.data(), .port = cards.front().port};
    if (rank == 0) place.listener = std::move(listener);
  }
  return create(std::move(place), rank, static_cast<int>(cards.size()), std::move(options));
}

}  // namespace rondo
