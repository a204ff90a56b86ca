// A collective as a kernel is given it, how ranks' exchange memory is laid out, and how a call's bytes are
// shared out among chunks and blocks. The bodies are in one_shot.h, staged.h, windows.h and ring.h.
#pragma once

#include "kernels/device/lanes.h"

namespace rondo::device {

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };

enum class Way : std::uint8_t {
  one_shot,  // all-reduce: every rank reads every rank's whole input
  staged,    // through areas of fixed size, round by round
  windows,   // from and to the users' memory of all ranks; all kinds
  ring,      // through queues in the right neighbour's memory; all kinds but all-to-all
};

// Blocks of one kernel. A block has its own part of all memory and its own flags: block b of a rank waits for
// block b of its peers and for nobody else.
inline constexpr int most_blocks = 64;

// Points of a round that ranks tell one another of, by flags in the memory of who is told.
enum class Point : std::uint8_t { filled, reduced, finished };

// What a block keeps from call to call. All zero at first.
struct BlockState {
  std::uint64_t rounds;          // that all calls so far had; the flags say them modulo 2^32
  std::uint64_t sent, received;  // slices, over the ring
};

// The head of a rank's exchange memory: what its peers, and itself, write there.
struct BlockFlags {
  std::uint64_t told[3][2][most_ranks];  // by point, parity of the round, and who told
  std::uint64_t arrived;                 // slices that the left neighbour has put in the queue
  std::uint64_t freed;                   // slices that the right neighbour has taken from its queue
  BlockState state;
};
struct alignas(16) ExchangeHead {
  BlockFlags blocks[most_blocks];
};

// Exchange memory of a rank, mapped by all: head, staging area, queue. Zeroed before the first call, aligned
// to 16 bytes, and the same sizes on all ranks.
struct ExchangeSizes {
  std::size_t area, queue;  // bytes, multiples of `unit`

  static constexpr std::size_t unit = std::size_t{16} * most_blocks;
  RONDO_HOST_DEVICE std::size_t all() const { return sizeof(ExchangeHead) + area + queue; }
};
// Bytes of an area, and of a queue, that leave each slice 16 bytes or more.
RONDO_HOST_DEVICE constexpr std::size_t least_area(int size) {
  return ExchangeSizes::unit * 4 * static_cast<std::size_t>(size);
}
inline constexpr std::size_t least_queue = ExchangeSizes::unit * 8;

// One rank's memory as this rank can reach it.
struct PeerMemory {
  std::byte* exchange;
  const std::byte* input;  // windows only: the user's buffers
  std::byte* output;
};

struct CollectiveCall {
  CollectiveKind kind;
  Way way;
  DataType type;
  ReduceOp op;
  std::uint64_t scalar;  // bits of premul_sum's factor
  int rank, size, root;
  std::size_t count;        // elements, as docs/algorithms.md counts them
  std::uint32_t signature;  // hash of all in which ranks' calls must be alike, the number of blocks too
  const std::byte* input;   // in place as for NCCL: all-to-all not at all
  std::byte* output;
  PeerMemory peers[most_ranks];  // by rank, this one too
  ExchangeSizes sizes;
  // This rank's own, by rank: payload bytes that it moved to a rank, and from one.
  std::uint64_t* sent;
  std::uint64_t* fetched;
  // Shared with the host: not 0: stop; where the first failure is written (Failure::word).
  std::uint64_t* abort;
  std::uint64_t* failure;
  std::uint64_t timeout_ns;  // since the kernel began; 0: never
};

enum class FailureKind : std::uint8_t { none, timeout, aborted, mismatch };

// Why a call broke off, waiting for which rank: one word that a kernel writes and the host reads. Outputs
// then hold anything, and the exchange memory is of no more use.
struct Failure {
  FailureKind kind;
  Point point;
  std::uint8_t block, peer;
  std::uint32_t round;

  RONDO_HOST_DEVICE std::uint64_t word() const {
    return std::uint64_t{round} << 32 | std::uint64_t{peer} << 24 | std::uint64_t{block} << 16 |
           static_cast<std::uint64_t>(point) << 8 | static_cast<std::uint64_t>(kind);
  }
  static Failure of(std::uint64_t word) {
    return {static_cast<FailureKind>(word & 0xFF), static_cast<Point>(word >> 8 & 0xFF),
            static_cast<std::uint8_t>(word >> 16), static_cast<std::uint8_t>(word >> 24),
            static_cast<std::uint32_t>(word >> 32)};
  }
};

RONDO_HOST_DEVICE inline std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
RONDO_HOST_DEVICE inline std::size_t quotient_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// A run of bytes in a buffer.
struct Run {
  std::size_t begin, bytes;
};

// Chunk r as docs/algorithms.md cuts the call.
RONDO_HOST_DEVICE inline Run chunk_of(const CollectiveCall& call, int r) {
  const std::size_t element = size_of(call.type), chunk = static_cast<std::size_t>(r);
  switch (call.kind) {
    case CollectiveKind::all_reduce: {
      const auto size = static_cast<std::size_t>(call.size);
      const std::size_t each = call.count / size, more = call.count % size;
      return {(chunk * each + least(chunk, more)) * element, (each + (chunk < more ? 1 : 0)) * element};
    }
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return {chunk * call.count * element, call.count * element};
    case CollectiveKind::broadcast:
      break;
  }
  return {0, call.count * element};
}

// The part of a chunk that one block moves: whole lines of 128 bytes, but for the last.
RONDO_HOST_DEVICE inline Run part_of(Run chunk, int block, int blocks) {
  constexpr std::size_t line = 128;
  const std::size_t each =
      quotient_up(quotient_up(chunk.bytes, static_cast<std::size_t>(blocks)), line) * line;
  const std::size_t begin = least(static_cast<std::size_t>(block) * each, chunk.bytes);
  return {chunk.begin + begin, least(each, chunk.bytes - begin)};
}

// Slice number `index` of a part, in slices of `slice_bytes`.
RONDO_HOST_DEVICE inline Run slice_of(Run part, std::size_t index, std::size_t slice_bytes) {
  const std::size_t offset = least(index * slice_bytes, part.bytes);
  return {part.begin + offset, least(slice_bytes, part.bytes - offset)};
}

// The most slices that this block's part of any chunk has: the first and the last chunk tell, since no chunk
// has another size than those two.
RONDO_HOST_DEVICE inline std::size_t most_slices(const CollectiveCall& call, Lanes lanes,
                                                 std::size_t slice_bytes) {
  const Run first = part_of(chunk_of(call, 0), lanes.block, lanes.blocks);
  const Run last = part_of(chunk_of(call, call.size - 1), lanes.block, lanes.blocks);
  return quotient_up(first.bytes > last.bytes ? first.bytes : last.bytes, slice_bytes);
}

// Room for slices in a stretch of exchange memory that is one block's. A slice stands as far off a multiple
// of 16 bytes as in the users' buffers, so that vectors can be copied to it where those begin on one.
struct Slots {
  std::byte* begin;
  std::size_t stride;

  RONDO_HOST_DEVICE Slots(std::byte* memory, std::size_t bytes, int count)
      : begin(memory), stride(bytes / static_cast<std::size_t>(count) / 16 * 16) {}

  RONDO_HOST_DEVICE std::size_t slice_bytes() const { return stride - 16; }
  RONDO_HOST_DEVICE std::byte* at(int index, Run slice) const {
    return begin + static_cast<std::size_t>(index) * stride + slice.begin % 16;
  }
};

RONDO_HOST_DEVICE inline BlockFlags& flags_of(const CollectiveCall& call, int rank, int block) {
  return reinterpret_cast<ExchangeHead*>(call.peers[rank].exchange)->blocks[block];
}

// In a staging area: two rounds take turns.
RONDO_HOST_DEVICE inline Slots area_slots(const CollectiveCall& call, int rank, int block,
                                          std::uint64_t round, int count) {
  const std::size_t half = call.sizes.area / most_blocks / 2;
  const std::size_t index = static_cast<std::size_t>(block) * 2 + round % 2;
  return {call.peers[rank].exchange + sizeof(ExchangeHead) + index * half, half, count};
}

inline constexpr int queue_slices = 4;
RONDO_HOST_DEVICE inline Slots queue_slots(const CollectiveCall& call, int rank, int block) {
  const std::size_t each = call.sizes.queue / most_blocks;
  return {call.peers[rank].exchange + sizeof(ExchangeHead) + call.sizes.area +
              static_cast<std::size_t>(block) * each,
          each, queue_slices};
}

// A reduction of the call's type and operator, without sources and targets yet.
RONDO_HOST_DEVICE inline void begin_reduction(ReduceWork& work, const CollectiveCall& call, Run slice) {
  work.type = call.type;
  work.op = call.op;
  work.scalar = call.scalar;
  work.ranks = call.size;
  work.first_is_partial = false;
  work.complete = true;
  work.source_count = 0;
  work.target_count = 0;
  work.count = slice.bytes / size_of(call.type);
}

}  // namespace rondo::device
