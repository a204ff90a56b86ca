// What a stream moves of a call, as the host writes it to pinned memory before the stream comes there: pieces
// of memory, reduced or copied, from all sources to all targets. Nothing in it waits for anybody, so it may
// have any number of blocks, and ranks may share a GPU by time slices.
#pragma once

#include "kernels/device/collective.h"

namespace rondo::device {

// From byte `from` of every source to byte `to` of every target.
struct Piece {
  std::uint64_t from, to, bytes;
  std::uint64_t group;  // the bytes of one group are counted together
};

inline constexpr int most_job_blocks = 128;

struct Job {
  ReduceWork work;  // of a piece from byte 0 to byte 0. Null stands for address 0: a piece says it all then
  bool copies;      // the one source, as it is
  std::uint64_t piece_count;
  std::uint64_t bytes;  // of all pieces
  const Piece* pieces;
  std::uint64_t groups;  // at most most_ranks
  std::uint64_t* moved;  // by block, then by group: bytes of pieces that the block has moved
};

inline int blocks_for_job(std::size_t bytes) {
  constexpr std::size_t worth_a_block = 16384;  // two vectors of 16 bytes for each of 512 threads
  return static_cast<int>(least(quotient_up(bytes | 1, worth_a_block), most_job_blocks));
}

// What the threads of a block share: the job stands in the host's memory, which is far.
struct BlockMemory {
  static constexpr std::size_t most_pieces = 32;

  ReduceWork job, work;  // as the job has it; of the piece at hand
  Piece pieces[most_pieces];
  std::uint64_t moved[most_ranks];
};

// Whole words.
RONDO_HOST_DEVICE inline void bring(void* to, const void* from, std::size_t bytes, Share share) {
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  for (std::size_t at = share.thread * 8; at < bytes; at += share.threads * 8)
    store_word(target + at, load_word<std::uint64_t>(source + at));
}

// One block of a job, as its threads do it together. `reach` makes addresses out of those that the job names,
// each with the number of bytes from there on.
template <typename Reach>
class JobBlock {
 public:
  RONDO_HOST_DEVICE JobBlock(const Job& job, BlockMemory& own, Lanes lanes, Reach reach)
      : job_(job), own_(own), lanes_(lanes), reach_(reach) {}

  RONDO_HOST_DEVICE void run() const {
    const Share share = lanes_.share();
    const std::uint64_t count = job_.piece_count;
    const Run mine = part_of({0, job_.bytes}, lanes_.block, lanes_.blocks);
    bring(&own_.job, &job_.work, sizeof own_.job, share);
    bring(&own_.work, &job_.work, sizeof own_.work, share);
    for (std::size_t group = share.thread; group < most_ranks; group += share.threads) own_.moved[group] = 0;
    std::size_t before = 0;  // bytes of the pieces so far
    for (std::uint64_t first = 0; first < count; first += BlockMemory::most_pieces) {
      const std::size_t here = least(BlockMemory::most_pieces, count - first);
      lanes_.meet();  // all are through with those before
      bring(own_.pieces, job_.pieces + first, here * sizeof(Piece), share);
      lanes_.meet();
      for (std::size_t i = 0; i < here; ++i) {
        const Piece& piece = own_.pieces[i];
        const std::size_t begin = before > mine.begin ? before : mine.begin;
        const std::size_t end = least(before + piece.bytes, mine.begin + mine.bytes);
        if (begin < end) move(piece, begin - before, end - begin);
        before += piece.bytes;
      }
    }
    lanes_.meet();
    std::uint64_t* const moved = job_.moved + static_cast<std::size_t>(lanes_.block) * job_.groups;
    for (std::size_t group = share.thread; group < job_.groups; group += share.threads)
      moved[group] = own_.moved[group];
  }

 private:
  RONDO_HOST_DEVICE void move(const Piece& piece, std::size_t offset, std::size_t bytes) const {
    const Share share = lanes_.share();
    ReduceWork& work = own_.work;
    lanes_.meet();
    for (std::size_t s = share.thread; s < static_cast<std::size_t>(work.source_count); s += share.threads)
      work.sources[s] = reach_(address(own_.job.sources[s], piece.from + offset), bytes);
    for (std::size_t t = share.thread; t < static_cast<std::size_t>(work.target_count); t += share.threads)
      work.targets[t] = reach_(address(own_.job.targets[t], piece.to + offset), bytes);
    if (share.thread == 0) {
      work.count = bytes / size_of(work.type);
      own_.moved[piece.group] += bytes;
    }
    lanes_.meet();
    if (job_.copies)
      copy_strided(work.sources[0], work.targets, work.target_count, bytes, share);
    else
      reduce_strided(work, share);
  }

  RONDO_HOST_DEVICE static std::byte* address(const std::byte* base, std::uint64_t offset) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + offset);
  }

  const Job& job_;
  BlockMemory& own_;
  Lanes lanes_;
  Reach reach_;
};

}  // namespace rondo::device
