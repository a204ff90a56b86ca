// A communicator: N ranks, and the calls that one of them makes on it, in order.
//
// Threading: start() and the ledger belong to one thread at a time; progress(), abort() and the error may be
// used from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "src/bootstrap.h"
#include "src/check_round.h"
#include "src/collective.h"
#include "src/device_call.h"
#include "src/error.h"
#include "src/far_ranks.h"
#include "src/ledger.h"
#include "src/patience.h"
#include "src/staging.h"

namespace rondo {

class Communicator;

// A call under way. It lives until whoever started it and the communicator have let it go.
struct PendingCall {
  std::shared_ptr<Communicator> communicator;
  Call call;
  std::string scope;                      // of the ledger
  std::chrono::milliseconds timeout;      // from when it is first in line
  std::shared_ptr<PendingCall> after;     // the call before it on its stream; null: none
  std::shared_ptr<DeviceCall> on_device;  // its place on a device's stream; null: on none

  // From here on the communicator's own.
  bool active = false;
  // How far the ranks are in finding out where the data lie. On windows of devices two calls, as they count
  // them, make one.
  enum class Where {
    host,             // in host memory, as this rank sees it
    device,           // the ranks tell one another where on devices
    device_unmapped,  // this rank maps the others' memory
    device_mapped,    // the ranks tell one another whether they have
    device_to_host,   // not all of them can: the data are on their way to the host
  };
  Where where = Where::host;
  std::uint64_t sequence = 0;  // number among the communicator's collectives; 0: not one
  Deadline deadline = Deadline::never();
  Algorithm algorithm = Algorithm::automatic;
  std::unique_ptr<CheckRound> check;  // before the collective, where ranks of several hosts ask for it
  std::unique_ptr<StagedCall> ahead;  // has filled its first round before the ranks have met
  std::unique_ptr<Collective> collective;
  bool roll_called = false;  // has everybody on other hosts been asked how far they are?
  std::optional<Error> error;
  std::atomic<bool> done{false};  // stored last, with release
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Collective over all ranks that meet at `place`. Throws on every rank if it fails on one.
  static std::shared_ptr<Communicator> create(MeetingPlace place, int rank, int size,
                                              CommunicatorOptions options);
  // The world of a launcher.
  static std::shared_ptr<Communicator> create(const LaunchEnvironment& launch, CommunicatorOptions options);

  Communicator(Membership membership, CommunicatorOptions options);
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return options_.name; }
  const CommunicatorOptions& options() const { return options_; }
  Ledger& ledger() { return ledger_; }
  std::chrono::milliseconds timeout() const { return options_.settings.timeout; }
  void set_timeout(std::chrono::milliseconds timeout) { options_.settings.timeout = timeout; }
  const Hosts& hosts() const { return membership_.hosts; }
  bool oversubscribed() const { return membership_.oversubscribed; }

  // Queues a call. The caller, or somebody else, then drives it (src/engine.h).
  std::shared_ptr<PendingCall> start(Call call, std::shared_ptr<PendingCall> after = nullptr,
                                     std::shared_ptr<DeviceCall> on_device = nullptr);
  // start(), and wait until it is done. Throws what went wrong.
  void run(Call call);
  // The same, without queue and memory where the call is small and nothing is under way.
  void run(const PlainCall& plain);

  // Collective: ranks of one colour make a communicator, ordered by key, then by rank. Null for a negative
  // colour.
  std::shared_ptr<Communicator> split(int color, int key, CommunicatorOptions options);

  // Ends all pending calls on every rank. Waits for no peer, but for one that stores to
  // this rank's windows at this moment: a second at most.
  void abort();
  // The same, because of something that went wrong elsewhere, in `call`.
  void give_up(const Error& error, const std::string& call);
  // Tells the others that this rank makes no more calls. The last holder's end does too.
  void leave();
  std::optional<Error> error();
  // The first error among calls on a device's streams that left the communicator whole, once: nobody else
  // tells of it.
  std::optional<Error> take_refusal();
  // Why no call like this can go on windows of devices; empty: it may.
  std::string why_not_on_devices(const Call& call) const;
  std::shared_ptr<DeviceMemories> device_memories(Device& device);
  // Logs, once for each reason, that calls on a device's memory go by the host.
  void tell_host_staging(const std::string& why);
  // Throws in a forked child: the communicator is its parent's.
  void need_own_process() const;

  enum class IfBusy { skip, wait };
  // Steps the first pending call. True if anything moved. Where another thread is at it already: false, or
  // waits for its turn.
  bool progress(IfBusy if_busy = IfBusy::skip);
  // Looks at deadlines and at the peers' lives: slower than progress(), so for every few milliseconds of
  // idleness.
  void check_health();
  // When the next look at a deadline is due at the latest.
  std::chrono::nanoseconds patience() const;
  bool idle() const;
  Doorbell& bell() const { return own_lines().bell; }
  // Wakes this rank, however it sleeps; also for who may do so when the communicator is no more.
  std::function<void()> waker() const {
    return [segment = membership_.segment, rank = local_rank_] { segment->ring(rank); };
  }
  // Where a rank that waits for other hosts may poll, once arm_network() has said yes; -1: all are on this
  // one. arm_network() says no where there is something to do already. alarm() stands for the bell then.
  int network_descriptor() const;
  bool arm_network() const;
  const Fd& alarm() const { return membership_.segment->alarm(local_rank_); }
  // Between calls: takes and answers what ranks on other hosts tell.
  void listen();

 private:
  using Lock = std::lock_guard<std::mutex>;

  bool step(PendingCall& head);
  bool step_collective(const PendingCall& head) const;
  void activate(PendingCall& head);
  void publish(PendingCall& head);
  void publish_host(PendingCall& head);
  void begin_between_hosts(PendingCall& head);
  void publish_slot(std::uint64_t sequence, std::size_t protocol_bytes);
  void wake_sleepers() const;
  void wake_after_store() const;
  void count_in(Meeting& meeting, std::uint64_t number);
  bool all_have_called(std::uint64_t sequence) const;
  bool have_met(std::uint64_t sequence);
  void come_to_point(std::uint64_t number);
  bool all_are_at_point(std::uint64_t number) const;
  std::shared_ptr<PendingCall> new_pending(Call call);
  SlotsOfRanks slots_of(std::uint64_t sequence) const;
  std::unique_ptr<Collective> make(PendingCall& head);
  bool tells_of_buffers(const PendingCall& head) const;
  std::unique_ptr<Collective> make_staged_call(PendingCall& head);
  WindowsOfRanks windows_of_ranks(std::uint64_t sequence) const;
  MeetAgain meet_again(std::uint64_t sequence);
  // Of calls on windows of the host: who moves which part (src/meeting.cc).
  bool shares_parts(CallKind kind, int members, std::uint64_t sequence) const;
  bool takes_part(int part, std::uint64_t sequence, bool shared) const;
  void part_is_done(int part, std::uint64_t sequence, const PartBytes& moved);
  void count_part(const PartBytes& moved);
  void count_moved_by_other(std::uint64_t sequence);
  PartsOfCall parts_of(const PendingCall& head);
  // shared: both buffers of each rank, not only what others need.
  void map_buffers(std::uint64_t sequence, CallKind kind, int root, bool shared,
                   std::vector<PeerBuffers>& peers) const;
  std::byte* map_buffer(int rank, const WindowReference& reference,
                        std::shared_ptr<const MappedWindow>& window) const;
  std::optional<Error> mismatch(const PendingCall& head) const;
  std::optional<std::string> difference_of(const PendingCall& head) const;

  // Of calls whose data may lie on devices (src/device_ways.cc).
  bool has_settled(PendingCall& head);
  bool all_are_on_hosts(const PendingCall& head) const;
  bool goes_as_it_is(PendingCall& head);
  void publish_on_device(PendingCall& head);
  void publish_again(PendingCall& head);
  void fall_back(PendingCall& head, const std::string& why);
  void map_devices(PendingCall& head);
  void close_devices();
  CallDevicePlaces& device_places_at(int rank, std::uint64_t sequence) const;
  std::vector<int> ranks_that(const std::function<bool(int)>& is_so) const;
  std::unique_ptr<Collective> make_on_devices(PendingCall& head);

  void finish(PendingCall& head);
  void end(PendingCall& head, std::optional<Error> error);
  bool failure_told();
  bool broken_off();
  void break_off(const Error& error, std::string call = "");
  void fail_pending(const Error& error);
  void tell_failure(const Error& error);
  void write_failure(int rank, const Error& error);
  std::uint64_t last_call_of(int place, std::uint64_t sequence) const;
  std::string late_ranks(const PendingCall& head) const;
  std::string who(const std::vector<int>& ranks) const;
  void need_live_peers(const PendingCall& head) const;
  bool waits_for(const PendingCall& head, int place) const;
  void ring_neighbours() const;
  int neighbour(int place) const;
  bool farewell_is_over(bool& moved);
  RankLines& own_lines() const { return membership_.segment->rank(local_rank_); }
  CallSlot& slot_of(int rank, std::uint64_t sequence) const;
  CallPlaces& places_at(int rank, std::uint64_t sequence) const;
  std::size_t publish_places(PendingCall& head);
  bool all_are(CallPlaces::Kind kind, std::uint64_t sequence) const;
  bool alike(std::uint64_t sequence, const CallDescriptor& mine) const;
  std::string prefix() const;
  Error out_of_memory() const;
  void leave_quietly();
  void leave_to_the_parent();

  // Of plain calls (src/plain_calls.cc).
  struct PlainWay;
  PlainWay plain_way(const PlainCall& plain);
  std::shared_ptr<PendingCall> run_or_queue(const PlainCall& plain, const PlainWay& way);
  void publish(const PlainCall& plain, const PlainWay& way, std::uint64_t sequence);
  template <typename Condition>
  bool soon(Condition condition, Patience::Others others = Patience::Others::may_wait);
  void nudge();
  std::shared_ptr<PendingCall> move_windows(const PlainCall& plain, std::uint64_t sequence);
  std::shared_ptr<PendingCall> move_staged(const PlainCall& plain, std::uint64_t sequence);
  std::shared_ptr<PendingCall> queue_filled(const PlainCall& plain, std::uint64_t sequence);
  std::shared_ptr<PendingCall> queue(const PlainCall& plain, Algorithm algorithm, std::uint64_t sequence);
  void finish(const PlainCall& plain, Algorithm algorithm, std::uint64_t sequence);
  CallSizes sizes_of(const PlainCall& plain) const;

  Membership membership_;
  CommunicatorOptions options_;
  int rank_, size_;
  int local_rank_, local_size_;  // among the ranks of this host, which share the segment
  std::uint64_t generation_;     // of forks: a child may not use its parent's communicator
  std::unique_ptr<Transport> transport_;
  std::vector<int> ring_;  // the ranks in the ring's order; empty: by number
  Place place_;
  Staging staging_;
  Ledger ledger_;
  std::uint64_t sequence_;                // number of the last collective
  std::vector<std::size_t> chunk_bytes_;  // of the plain call under way
  // With those of devices: null until a call has a buffer there.
  std::shared_ptr<DeviceMemories> device_memories_;
  int waits_before_a_nudge_ = 64;             // in a row, that ended as soon as this thread gave way
  std::atomic<bool> devices_refused_{false};  // one could not map another's memory
  std::mutex told_mutex_;
  std::set<std::string> host_staging_told_;  // the reasons
  bool plain_at_once_;                       // whether plain calls may go without queue and memory
  std::unique_ptr<FarRanks> far_;            // null: all ranks are on this host
  std::vector<PeerBuffers> peers_;           // of the plain call under way
  WindowScratch scratch_;

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<PendingCall>> pending_;
  std::optional<Error> error_;  // set once: the communicator is of no more use
  std::optional<Error> refusal_;
};

}  // namespace rondo
