// The algorithms: state machines that move a call's bytes over a transport. step() never blocks, so that one
// thread can keep any number of them going.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/calls.h"
#include "src/process.h"
#include "src/settings.h"
#include "src/transport.h"

namespace rondo {

class Collective {
 public:
  virtual ~Collective() = default;
  // Does what can be done now. True when the call is complete on this rank: its output is whole, and its
  // input may be changed.
  virtual bool step() = 0;
  // Whether this rank still needs something of `peer`.
  virtual bool waits_for(int /*peer*/) const { return true; }
};

// What the algorithms run on.
struct Place {
  int rank;
  int size;
  Transport& transport;
  std::size_t slice_bytes;  // a multiple of 8, so that slices hold whole elements of every type
  std::size_t windows_streaming_above, staged_streaming_above;  // of Settings
  std::span<const int> ring;  // the ranks in the order of the ring; empty: by number

  int at(int position) const { return ring.empty() ? position : ring[static_cast<std::size_t>(position)]; }
  int position(int of) const {
    return ring.empty() ? of : static_cast<int>(std::find(ring.begin(), ring.end(), of) - ring.begin());
  }
  int left() const { return at((position(rank) + size - 1) % size); }
  int right() const { return at((position(rank) + 1) % size); }
};

// Pure functions of what all ranks know: so ranks cannot choose differently. What is forced, where the kind
// of call has it, else ring or direct, for calls too large for slots; or slots besides, for calls in which no
// rank's input has more than `input_bytes`.
Algorithm choose_algorithm(CallKind kind, Algorithm forced);
Algorithm choose_algorithm(CallKind kind, std::size_t input_bytes, Algorithm forced);
Algorithm choose_algorithm(const Call& call, Algorithm forced);

// Between hosts, by the call's arguments, who is on which host, and whether ranks outnumber some machine's
// cores. Small calls go direct, which has one round or two: an all-reduce in one shot, as long as no rank
// sends too much, and a broadcast along a tree, unless it is very small. Where ranks share cores all-reduces
// that could go in one shot, all-gathers and reduce-scatters go by doubling, which has the fewest messages.
// Else hierarchy where the hosts have as many ranks each, else ring. Measured: docs/performance.md.
struct Hosts;
Algorithm choose_between_hosts(const Call& call, Algorithm forced, const Hosts& hosts);
inline constexpr std::size_t most_direct_between_hosts = 16 * 1024;
inline constexpr std::size_t most_one_shot = 32 * 1024;         // that a rank sends
inline constexpr std::size_t most_doubled_unevenly = 4 * 1024;  // where hosts are no power of two
inline constexpr std::size_t least_tree = 4 * 1024;
bool has_hierarchy(CallKind kind, const Hosts& hosts);

// How a call is carried out that is too large for slots, from what all ranks know: whether the buffers that
// peers touch lie in windows on all of them, and whether there are staging areas.
struct Ways {
  bool windows, staging;
};
Algorithm choose_way(const Call& call, Algorithm chosen, int ranks, const Ways& possible,
                     const Settings& settings);
// Direct calls of the kind with no more bytes go over streams, though there are staging areas.
std::size_t staged_above(CallKind kind, const Settings& settings);
// Whether choose_way looks at `possible`.
bool has_ways(const Call& call, Algorithm chosen, int ranks, const Settings& settings);

std::unique_ptr<Collective> make_collective(const Call& call, Algorithm algorithm, const Place& place,
                                            const Hosts& hosts);

// The parts of make_collective, one file each.
std::unique_ptr<Collective> make_ring(const Call& call, const Place& place);
std::unique_ptr<Collective> make_direct_reduction(const Call& call, const Place& place);
std::unique_ptr<Collective> make_exchange(const Call& call, const Place& place);
// Every rank's own chunk of the outputs goes to all: the second half of a direct all-reduce.
std::unique_ptr<Collective> make_gather_of_outputs(const Call& call, const Place& place);
std::unique_ptr<Collective> make_messages(const Call& call, const Place& place);
// A broadcast that goes to each host once, and from there to its ranks.
std::unique_ptr<Collective> make_tree(const Call& call, const Place& place, const Hosts& hosts);
// An all-reduce for which every rank gets all inputs.
std::unique_ptr<Collective> make_one_shot(const Call& call, const Place& place);
// All-reduce, all-gather or reduce-scatter: pairs of ranks exchange all that they have, in log2 N rounds.
std::unique_ptr<Collective> make_doubling(const Call& call, const Place& place, const Hosts& hosts);
// Direct within a host, rings between hosts.
std::unique_ptr<Collective> make_hierarchy(const Call& call, const Place& place, const Hosts& hosts);
// For ranks that share no memory; where they do, that all have called is all that a barrier needs.
std::unique_ptr<Collective> make_message_barrier(const Place& place);

// ---- calls that peers' memory carries ----

// Whether direct calls of this kind may go by slots or staging areas.
bool has_direct_ways(CallKind kind);

// Whether the call can be carried out on windows, if the buffers that peers touch lie in some.
bool can_use_windows(const Call& call);
// Where those buffers of rank `rank`, which is this one, lie: all pieces of each in one window, or in none.
// both: its other buffer too.
CallWindows windows_of(const Call& call, int rank, bool both);
// Whether they say so of all buffers of rank `rank` that peers touch, and there are some.
bool in_windows(const CallWindows& windows, CallKind kind, int root, int rank);
// Whether all ranks' buffers lie in windows, and alike, seen from their first byte. A function of what all
// ranks know.
using WindowsOfRanks = std::function<const CallWindows&(int rank)>;
bool all_in_windows(const Call& call, int size, const WindowsOfRanks& windows);
bool all_in_windows(CallKind kind, int root, int size, const WindowsOfRanks& windows);

// Why no call like this one can go so where buffers lie on devices, as far as all ranks know; empty: it may.
std::string why_not_on_devices(const Call& call, int ranks, const Settings& settings);

// A peer's buffers in this process, from their first byte on, and what keeps them there.
struct PeerBuffers {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::shared_ptr<const MappedWindow> input_window, output_window;
};
// What such a call keeps its lists in, so that the next one takes no memory.
struct WindowScratch {
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
};
// Whether a rank can move the parts of others too: then windows of both buffers of all ranks are told. A
// function of what all ranks know.
bool parts_can_be_shared(CallKind kind, int members);
bool parts_can_be_shared(CallKind kind, int members, int size, const WindowsOfRanks& windows);
// Who moves which part, and how ranks tell one another.
struct PartsOfCall {
  // Of all ranks. Only by a rank that has a part to move: without its part the call is not done, and peers
  // keep their buffers.
  std::function<void(std::vector<PeerBuffers>& peers)> map;
  std::function<bool(int part)> is_mine;  // asked once; then this rank moves it
  std::function<void(int part, const PartBytes& bytes)> is_done;
  std::function<bool()> all_are_done;
};
// Every rank's part is read and stored from and to all ranks' buffers at once.
std::unique_ptr<Collective> make_windows(const Call& call, const Place& place, PartsOfCall parts);

// Tells the others that this rank is done with their buffers, and returns whether all are; it is called again
// until they are.
using MeetAgain = std::function<bool()>;

// What is left of a call on windows that was moved already: to meet.
std::unique_ptr<Collective> make_meeting(MeetAgain meet);

// Through the ranks' staging areas, which the communicator owns.
class Staging;
class StagedCall : public Collective {
 public:
  // Fills the first round before the ranks have met, if that can be; returns whether it was. It may be all
  // that is ever done: a call that the ranks do not agree on never begins.
  virtual bool fill_ahead() = 0;

  // What was done of the first round before begin().
  struct Ahead {
    bool own, all;  // this rank has filled it, all ranks have
    bool reduced;   // this rank has reduced it
  };
  // Once the ranks have met and agreed, before the first step().
  virtual void begin(Ahead ahead) = 0;
};
std::unique_ptr<StagedCall> make_staged(const Call& call, const Place& place, Staging& staging);

// The same for calls that were not made into lists, of one round, which is number staging.rounds().
bool fits_one_round(std::span<const std::size_t> chunk_bytes, const Staging& staging);
void fill_round(const PlainCall& plain, std::span<const std::size_t> chunk_bytes, const Place& place,
                const Staging& staging);
// Once all have filled: what of the result is this rank's own work, also what it stages for the others.
void reduce_round(const PlainCall& plain, std::span<const std::size_t> chunk_bytes, const Place& place,
                  const Staging& staging);
// An all-gather once all have filled, an all-reduce once all have reduced.
void gather_round(const PlainCall& plain, std::span<const std::size_t> chunk_bytes, const Place& place,
                  const Staging& staging);
// An all-gather's own chunk, which neither this nor take_from_slots() copies.
void keep_own(const PlainCall& plain, std::size_t bytes, const Place& place);

// Slots: each rank copies its input to its own, and counts it; once all have arrived, it takes the result
// from all.
struct SlotsOfRanks {
  const Segment& segment;
  std::uint64_t sequence;
  // Where an input of so many bytes stands.
  const std::byte* input(int rank, std::size_t bytes) const {
    return segment.slot(rank, sequence).input(bytes);
  }
};
void fill_slot(const Call& call, const Place& place, CallSlot& slot);
std::unique_ptr<Collective> make_slots(const Call& call, const Place& place, const SlotsOfRanks& slots);

// The same for calls that were not made into lists, which take no memory: of at most so many ranks.
inline constexpr int most_plain_ranks = 64;
std::size_t input_bytes(const PlainCall& plain, int size);
void fill_slot(const PlainCall& plain, const CallSizes& sizes, const Place& place, CallSlot& slot);
// From the others' slots alone: keep_own() does the rest of an all-gather.
void take_from_slots(const PlainCall& plain, const Place& place, const SlotsOfRanks& slots);

CallWindows windows_of(const PlainCall& plain, int size, bool both);
// Moves a part, and returns its bytes, which it has not counted.
PartBytes move_on_windows(const PlainCall& plain, int part, std::span<const std::size_t> chunk_bytes,
                          const Place& place, std::span<const PeerBuffers> peers, WindowScratch& scratch);

// Throws invalid_usage when a message to this rank itself lacks its other half.
void check_messages_to_self(const Call& call, int rank);

Reduction reduction_of(const Call& call, int size);

}  // namespace rondo
