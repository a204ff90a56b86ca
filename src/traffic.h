// Bytes that one rank has moved, by peer and class. The mover counts, at the copy: never computed from a
// call's arguments, so that they can be held against a formula.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace rondo {

enum class ByteClass : int { payload = 0, padding = 1, protocol = 2 };
inline constexpr int byte_class_count = 3;

using ByteCounts = std::vector<std::uint64_t>;  // by peer

struct Traffic {
  explicit Traffic(int size) : fetched(static_cast<std::size_t>(size)) {
    sent.fill(ByteCounts(static_cast<std::size_t>(size)));
  }

  std::array<ByteCounts, byte_class_count> sent;  // from this rank to each peer
  ByteCounts fetched;                             // payload from each peer, where this rank reads its memory

  void count(ByteClass byte_class, int peer, std::uint64_t bytes) {
    sent[static_cast<std::size_t>(byte_class)][static_cast<std::size_t>(peer)] += bytes;
  }
  void count_fetched(int peer, std::uint64_t bytes) { fetched[static_cast<std::size_t>(peer)] += bytes; }
  void clear() {
    std::fill(fetched.begin(), fetched.end(), 0);
    for (ByteCounts& counts : sent) std::fill(counts.begin(), counts.end(), 0);
  }
  // What was moved for a call that is made again.
  void forget_payload() {
    std::fill(fetched.begin(), fetched.end(), 0);
    for (const ByteClass one : {ByteClass::payload, ByteClass::padding}) {
      ByteCounts& counts = sent[static_cast<std::size_t>(one)];
      std::fill(counts.begin(), counts.end(), 0);
    }
  }
  Traffic& operator+=(const Traffic& other) {
    for (std::size_t peer = 0; peer < fetched.size(); ++peer) fetched[peer] += other.fetched[peer];
    for (std::size_t c = 0; c < sent.size(); ++c)
      for (std::size_t peer = 0; peer < sent[c].size(); ++peer) sent[c][peer] += other.sent[c][peer];
    return *this;
  }
  const ByteCounts& of(ByteClass byte_class) const { return sent[static_cast<std::size_t>(byte_class)]; }
};

// Bytes of calls on a device's memory that a stream of the device copied to host memory and back. They are no
// payload: they stay with this rank.
struct CopiedBytes {
  std::uint64_t down = 0, up = 0;

  CopiedBytes& operator+=(const CopiedBytes& other) {
    down += other.down;
    up += other.up;
    return *this;
  }
  friend bool operator==(const CopiedBytes&, const CopiedBytes&) = default;
};

}  // namespace rondo
