// One call of a collective, or one batch of calls of a group, as every algorithm sees it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "src/extent.h"
#include "src/segment.h"

namespace rondo {

enum class CallKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  messages,  // sends and receives
};
const char* name_of(CallKind kind);
std::string text_of(CallKind kind, std::uint64_t count, DataType type);  // "all-reduce of 4096 f32"

// Adds a value to a hash.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return hash ^ (value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2));
}

// A send or a receive. Messages between two ranks arrive in order.
struct Message {
  enum class Direction { send, receive };
  Direction direction;
  int peer;
  DataType type;
  Extent extent;
};

// What the byte formulas need of a call.
struct CallSizes {
  CallKind kind;
  int root;
  std::span<const std::size_t> chunk_bytes;  // by chunk
  std::span<const Message> messages;
};

// Chunk r belongs to rank r. Broadcast and reduce have one chunk, number 0.
struct Call {
  CallKind kind = CallKind::barrier;
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t scalar = 0;  // premul_sum's factor
  int root = 0;
  std::uint64_t count = 0;  // elements as the caller gave them, for messages and the mismatch check
  std::uint64_t shape = 0;  // hash of what `count` alone does not tell
  std::uint8_t members = 1;
  int divisor = 0;                       // of an average; 0: the number of ranks
  std::vector<std::size_t> chunk_bytes;  // the same on every rank
  std::vector<Extents> input;            // by chunk; those that this rank does not have are empty
  std::vector<Extents> output;
  std::vector<Message> messages;

  std::size_t all_bytes() const { return bytes_before(chunk_bytes.size()); }  // of all chunks
  std::size_t bytes_before(std::size_t chunk) const;
  std::size_t most_bytes() const;  // of a chunk

  CallDescriptor descriptor() const;
  CallSizes sizes() const { return {kind, root, chunk_bytes, messages}; }
  std::string text() const;
};

}  // namespace rondo
