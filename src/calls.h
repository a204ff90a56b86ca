// Makes Calls from what a user passes: pointers and counts, by NCCL's rules. Throws invalid_argument for
// counts whose bytes do not fit an address space.
#pragma once

#include <cstddef>
#include <span>

#include "src/call.h"

namespace rondo {

// A rank and the size of its communicator.
struct Seat {
  int rank;
  int size;
};

struct Operator {
  ReduceOp op = ReduceOp::sum;
  std::uint64_t scalar = 0;  // premul_sum's factor, an element of the call's type
};

// A call of the commonest kinds as a caller gives it, before it is cut into chunks: count is NCCL's.
// All-reduce, all-gather, reduce-scatter or barrier.
struct PlainCall {
  CallKind kind = CallKind::barrier;
  DataType type = DataType::u8;
  Operator op;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;

  // Of all ranks' chunks.
  std::size_t all_bytes(int size) const {
    const std::size_t bytes = count * size_of(type);
    return kind == CallKind::all_reduce ? bytes : bytes * static_cast<std::size_t>(size);
  }

  // Inline, so that it is made where it is used, in registers: copied, it would wait for its own parts to
  // leave the CPU's store buffer.
  CallDescriptor descriptor() const {
    return {count,
            0,
            op.scalar,
            0,
            static_cast<std::uint8_t>(kind),
            static_cast<std::uint8_t>(type),
            static_cast<std::uint8_t>(op.op),
            1};
  }
};
Call call_of(Seat seat, const PlainCall& plain);
// What call_of would cut it into: bytes of each rank's chunk.
void set_chunk_bytes(std::vector<std::size_t>& chunk_bytes, const PlainCall& plain, int size);

Call all_reduce_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type,
                     Operator op);
Call all_gather_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type);
Call reduce_scatter_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type,
                         Operator op);
// counts: one for each rank; the ranks' chunks lie one after another.
Call all_gather_v_call(Seat seat, const void* send, void* receive, std::span<const std::size_t> counts,
                       DataType type);
Call reduce_scatter_v_call(Seat seat, const void* send, void* receive, std::span<const std::size_t> counts,
                           DataType type, Operator op);
Call broadcast_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root);
Call reduce_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, Operator op,
                 int root);
Call gather_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root);
Call scatter_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root);
Call all_to_all_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type);
Call send_call(Seat seat, const void* send, std::size_t count, DataType type, int peer);
Call receive_call(Seat seat, void* receive, std::size_t count, DataType type, int peer);
Call barrier_call();

// Whether two calls of a group travel together, and the addition of one to the other.
bool joins(const Call& batch, const Call& call);
void join(Call& batch, Call call);

}  // namespace rondo
