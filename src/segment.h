// The shared memory of one communicator on one host: control lines, slots and a staging area of each rank,
// and a byte stream for each pair of ranks and channel. It is a memfd, passed over Unix sockets: it has no
// name, so nothing can leak in /dev/shm and no stranger can open it. Once all ranks have mapped it, its
// descriptor is closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/doorbell.h"
#include "src/fd.h"
#include "src/peer_allocations.h"
#include "src/window.h"

namespace rondo {

// What a rank is about to call. All ranks compare all descriptors before a byte moves.
struct CallDescriptor {
  std::uint64_t count;   // elements, as the caller gave them; summed over the members of a group
  std::uint64_t shape;   // hash of the members' counts, of all V counts
  std::uint64_t scalar;  // bits of a pre-multiplied sum's factor
  std::int32_t root;
  std::uint8_t kind, type, op, members;

  // Beside the kind: the rank's buffers lie on a device, and so do still its data. Where that differs between
  // ranks, or its device cannot do the call, all make it again, on the host: src/device_ways.cc.
  static constexpr std::uint8_t on_device = 0x80;
  bool is_on_device() const { return (kind & on_device) != 0; }
  CallDescriptor marked() const {
    CallDescriptor other = *this;
    other.kind |= on_device;
    return other;
  }
  CallDescriptor unmarked() const {
    CallDescriptor other = *this;
    other.kind &= static_cast<std::uint8_t>(~on_device);
    return other;
  }

  friend bool operator==(const CallDescriptor&, const CallDescriptor&) = default;
};

// Where a rank's buffers of a call lie, for peers that can map them.
struct CallBuffer {
  WindowReference window;  // number 0: in no window
  std::uint64_t layout;    // hash of how its pieces lie, seen from the first byte
};
struct CallWindows {
  CallBuffer input, output;
};

// What a rank says, beside a call that is too large for slots, of its buffers that peers touch.
struct CallPlaces {
  enum Kind : std::uint64_t {
    unmapped,  // peers cannot map them
    staged,    // the same, and the call's first round stands in the staging area
    mapped,    // `windows` says where they lie
  };
  std::uint64_t kind;
  CallWindows windows;

  // What is written, and read by others.
  static constexpr std::size_t bytes(Kind kind) {
    return sizeof(std::uint64_t) + (kind == mapped ? sizeof(CallWindows) : 0);
  }
};

// The same for buffers on devices, in two calls, as the ranks count them: first where they lie, then whether
// the rank has mapped all of them.
struct CallDevicePlaces {
  CallDeviceBuffers buffers;
  Mapped mapped;
};

// The input of a call that fits here travels beside its descriptor.
inline constexpr std::size_t slot_bytes = 4096;

// A rank's call number n stands in a slot of set n % 2: flag, descriptor and data one after another, so that
// the smallest calls are one cache line. Two sets are enough: who publishes call n + 2 has finished call
// n + 1, for which every rank has arrived, hence has read all there was of call n.
struct alignas(64) CallSlot {
  std::atomic<std::uint64_t> sequence;  // stored last, with release: what stands below is then whole
  CallDescriptor descriptor;
  std::byte few[24];           // the rest of the first cache line
  std::byte data[slot_bytes];  // whole lines, which move faster

  static constexpr std::size_t header_bytes = sizeof(sequence) + sizeof(descriptor);
  // Where a small call's input of so many bytes stands.
  std::byte* input(std::size_t bytes) { return bytes <= sizeof few ? few : data; }
};
static_assert(sizeof(CallSlot) == 64 + slot_bytes);
// What stands there instead.
static_assert(sizeof(CallPlaces) <= sizeof(CallSlot) - CallSlot::header_bytes);
static_assert(sizeof(CallDevicePlaces) <= sizeof(CallSlot) - CallSlot::header_bytes);

// Payload of one rank's part of a call on windows: as much to each peer, and from each.
struct PartBytes {
  std::uint64_t to_each, from_each;
};

struct RankLines {
  Doorbell bell;
  alignas(64) std::atomic<std::uint64_t> completed;  // the last collective this rank has finished
  std::atomic<std::uint32_t> left;                   // 1: this rank has let the communicator go
  // The last point inside calls that this rank has come to; between hosts the last call that it has made.
  alignas(64) std::atomic<std::uint64_t> met;
  // Rounds of staged calls that this rank has filled, reduced and finished.
  alignas(64) std::atomic<std::uint64_t> filled;
  alignas(64) std::atomic<std::uint64_t> reduced;
  alignas(64) std::atomic<std::uint64_t> finished;
  alignas(64) std::atomic<std::uint32_t> moving;  // 1: this rank touches its peers' buffers (moving.h)
  // The last call for which somebody has begun to move this rank's part, and for which another rank has, with
  // what it moved (parts.h).
  alignas(64) std::atomic<std::uint64_t> begun;
  std::uint64_t moved_by_other;
  PartBytes by_other;
};

// Where ranks that outnumber the cores meet at point n: each counts itself in arrived[n % 2] (of a call on
// windows, whoever has moved a part counts it), and the last one sets gathered to n and wakes the others, so
// that nobody is woken before there is something to do. Where each rank has a core, they look at one
// another's numbers instead, which is one trip of a cache line.
struct alignas(64) Meeting {
  std::atomic<std::uint32_t> arrived[2];
  alignas(64) std::atomic<std::uint64_t> gathered;
};

// Free-running byte counters of a stream. Each has one writer, and a line of its own.
struct StreamLines {
  alignas(64) std::atomic<std::uint64_t> written;  // by the sender
  alignas(64) std::atomic<std::uint64_t> read;     // by the receiver
};

// The first failure of the communicator, told to all.
struct alignas(64) Failure {
  enum State : std::uint32_t { none, being_written, told };
  std::atomic<std::uint32_t> state;
  std::int32_t rank;
  std::uint32_t kind;
  char text[500];
};

enum class Channel : int { collective = 0, message = 1 };
inline constexpr int channel_count = 2;

// Bytes of one stream and of one rank's staging area. The area is whole pages.
struct SegmentSizes {
  std::size_t stream;
  std::size_t staging;
};

// Whose place rank `rank` uses in turn `turn`: its own and its right neighbour's, by turns.
inline int next_in_turn(int rank, std::uint64_t turn, int ranks) {
  const int place = rank + static_cast<int>(turn % 2);
  return place == ranks ? 0 : place;
}

class Segment {
 public:
  // Made by one rank. Throws when the memory is not to be had.
  static Fd create(int ranks, SegmentSizes sizes);
  // Ranks that are threads of one process share one mapping. alarms: one for each rank, where ranks wait for
  // other hosts too; else none.
  static std::shared_ptr<Segment> map(const Fd& memory, int ranks, SegmentSizes sizes,
                                      std::vector<Fd> alarms = {});

  Segment(std::byte* base, int ranks, SegmentSizes sizes, std::vector<Fd> alarms);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Failure& failure() const;
  // Where ranks meet when they have made a call, and where when they are done with one another's windows.
  Meeting& arrivals() const;
  Meeting& departures() const;
  // Each set's slots change hands every time: who writes to one has read it the last time, hence has its
  // lines. Taking lines back that others have read costs two to three times as much (docs/performance.md).
  CallSlot& slot(int rank, std::uint64_t sequence) const {
    const int place = next_in_turn(rank, sequence / 2, ranks_);
    return reinterpret_cast<CallSlot*>(base_ + slots_)[2 * static_cast<std::size_t>(place) + sequence % 2];
  }
  RankLines& rank(int rank) const { return reinterpret_cast<RankLines*>(base_ + rank_lines_)[rank]; }
  // Wakes a rank, however it sleeps: see rondo::ring() for what must go before.
  void ring(int rank) const {
    Doorbell& bell = this->rank(rank).bell;
    rondo::ring(bell);
    if (!alarms_.empty()) sound(alarm(rank), bell);
  }
  const Fd& alarm(int rank) const { return alarms_[static_cast<std::size_t>(rank)]; }
  StreamLines& stream(int from, int to, Channel channel) const;
  std::size_t stream_bytes() const { return sizes_.stream; }
  std::span<std::byte> stream_data(int from, int to, Channel channel) const;
  std::span<std::byte> staging(int rank) const {
    return {base_ + staging_ + static_cast<std::size_t>(rank) * sizes_.staging, sizes_.staging};
  }
  // Takes the pages of a part now, so that shortage of memory is an Error and not a SIGBUS.
  void reserve(std::span<std::byte> part) const;

 private:
  std::size_t stream_index(int from, int to, Channel channel) const;

  std::byte* base_;
  int ranks_;
  SegmentSizes sizes_;
  std::vector<Fd> alarms_;
  std::size_t rank_lines_, slots_, staging_;  // offsets
};

}  // namespace rondo
