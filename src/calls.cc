#include "src/calls.h"

#include <limits>

#include "src/error.h"

namespace rondo {
namespace {

std::size_t checked_bytes(std::size_t count, DataType type, int ranks) {
  const std::size_t most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (count > most / size_of(type) / static_cast<std::size_t>(ranks))
    fail(ErrorKind::invalid_argument,
         "count {}: {} rank(s) of so many {} elements do not fit the address space", count, ranks,
         name_of(type));
  return count * size_of(type);
}

void need_rank(const char* argument, int rank, int size) {
  if (rank < 0 || rank >= size)
    fail(ErrorKind::invalid_argument, "{} {}: expected a rank from 0 to {}", argument, rank, size - 1);
}

void need_buffer(const char* argument, const void* buffer, std::size_t bytes) {
  if (buffer == nullptr && bytes > 0) fail(ErrorKind::invalid_argument, "{} is null", argument);
}

// Algorithms only read what stands in Call::input.
std::byte* bytes_at(const void* buffer, std::size_t offset = 0) {
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + offset;
}

Extents one_extent(std::byte* data, std::size_t bytes) {
  if (bytes == 0) return {};
  return {{data, bytes}};
}

// Chunks of the given sizes one after another.
std::vector<Extents> consecutive(const void* buffer, std::span<const std::size_t> chunk_bytes) {
  std::vector<Extents> chunks;
  std::size_t offset = 0;
  for (const std::size_t bytes : chunk_bytes) {
    chunks.push_back(bytes == 0 ? Extents{} : one_extent(bytes_at(buffer, offset), bytes));
    offset += bytes;
  }
  return chunks;
}

Call new_call(CallKind kind, DataType type, std::size_t count, std::size_t chunks) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.count = count;
  call.chunk_bytes.resize(chunks);
  call.input.resize(chunks);
  call.output.resize(chunks);
  return call;
}

void set_operator(Call& call, Operator op) {
  call.op = op.op;
  call.scalar = op.scalar;
}

// Equal shares, one element more for the first ranks where they do not divide.
void share_out(std::vector<std::size_t>& chunk_bytes, std::size_t count, DataType type) {
  const std::size_t ranks = chunk_bytes.size();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    chunk_bytes[rank] = (count / ranks + (rank < count % ranks ? 1 : 0)) * size_of(type);
}

// All ranks' chunks of `count` elements.
Call equal_chunks(CallKind kind, Seat seat, std::size_t count, DataType type) {
  const std::size_t bytes = checked_bytes(count, type, seat.size);
  Call call = new_call(kind, type, count, static_cast<std::size_t>(seat.size));
  call.chunk_bytes.assign(call.chunk_bytes.size(), bytes);
  return call;
}

Call uneven_chunks(CallKind kind, Seat seat, std::span<const std::size_t> counts, DataType type) {
  if (counts.size() != static_cast<std::size_t>(seat.size))
    fail(ErrorKind::invalid_argument, "counts has {} entries: expected one for each of {} ranks",
         counts.size(), seat.size);
  Call call = new_call(kind, type, 0, counts.size());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    call.chunk_bytes[rank] = checked_bytes(counts[rank], type, seat.size);
    call.count += counts[rank];
    call.shape = mix(call.shape, counts[rank]);
  }
  return call;
}

Extents& of_rank(std::vector<Extents>& chunks, int rank) { return chunks[static_cast<std::size_t>(rank)]; }

Call finish_all_gather(Call call, Seat seat, const void* send, void* receive) {
  const std::size_t mine = call.chunk_bytes[static_cast<std::size_t>(seat.rank)];
  need_buffer("sendbuff", send, mine);
  need_buffer("recvbuff", receive, call.all_bytes());
  of_rank(call.input, seat.rank) = one_extent(bytes_at(send), mine);
  call.output = consecutive(receive, call.chunk_bytes);
  return call;
}

Call finish_reduce_scatter(Call call, Seat seat, const void* send, void* receive, Operator op) {
  const std::size_t mine = call.chunk_bytes[static_cast<std::size_t>(seat.rank)];
  need_buffer("recvbuff", receive, mine);
  need_buffer("sendbuff", send, call.all_bytes());
  set_operator(call, op);
  call.input = consecutive(send, call.chunk_bytes);
  of_rank(call.output, seat.rank) = one_extent(bytes_at(receive), mine);
  return call;
}

Call message_call(Seat seat, Message::Direction direction, const void* buffer, std::size_t count,
                  DataType type, int peer) {
  need_rank("peer", peer, seat.size);
  const std::size_t bytes = checked_bytes(count, type, 1);
  need_buffer(direction == Message::Direction::send ? "sendbuff" : "recvbuff", buffer, bytes);
  Call call = new_call(CallKind::messages, type, count, 0);
  call.messages.push_back({direction, peer, type, {bytes_at(buffer), bytes}});
  return call;
}

void append(std::vector<Extents>& to, std::vector<Extents> from) {
  for (std::size_t chunk = 0; chunk < to.size(); ++chunk)
    to[chunk].insert(to[chunk].end(), from[chunk].begin(), from[chunk].end());
}

}  // namespace

Call all_reduce_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type,
                     Operator op) {
  const std::size_t bytes = checked_bytes(count, type, 1);
  need_buffer("sendbuff", send, bytes);
  need_buffer("recvbuff", receive, bytes);
  Call call = new_call(CallKind::all_reduce, type, count, static_cast<std::size_t>(seat.size));
  set_operator(call, op);
  share_out(call.chunk_bytes, count, type);
  call.input = consecutive(send, call.chunk_bytes);
  call.output = consecutive(receive, call.chunk_bytes);
  return call;
}

Call all_gather_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type) {
  return finish_all_gather(equal_chunks(CallKind::all_gather, seat, count, type), seat, send, receive);
}

Call all_gather_v_call(Seat seat, const void* send, void* receive, std::span<const std::size_t> counts,
                       DataType type) {
  return finish_all_gather(uneven_chunks(CallKind::all_gather, seat, counts, type), seat, send, receive);
}

Call reduce_scatter_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type,
                         Operator op) {
  return finish_reduce_scatter(equal_chunks(CallKind::reduce_scatter, seat, count, type), seat, send, receive,
                               op);
}

Call reduce_scatter_v_call(Seat seat, const void* send, void* receive, std::span<const std::size_t> counts,
                           DataType type, Operator op) {
  return finish_reduce_scatter(uneven_chunks(CallKind::reduce_scatter, seat, counts, type), seat, send,
                               receive, op);
}

Call broadcast_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root) {
  need_rank("root", root, seat.size);
  const std::size_t bytes = checked_bytes(count, type, 1);
  if (seat.rank == root) need_buffer("sendbuff", send, bytes);
  need_buffer("recvbuff", receive, bytes);
  Call call = new_call(CallKind::broadcast, type, count, 1);
  call.root = root;
  call.chunk_bytes[0] = bytes;
  if (seat.rank == root) call.input[0] = one_extent(bytes_at(send), bytes);
  call.output[0] = one_extent(bytes_at(receive), bytes);
  return call;
}

Call reduce_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, Operator op,
                 int root) {
  need_rank("root", root, seat.size);
  const std::size_t bytes = checked_bytes(count, type, 1);
  need_buffer("sendbuff", send, bytes);
  if (seat.rank == root) need_buffer("recvbuff", receive, bytes);
  Call call = new_call(CallKind::reduce, type, count, 1);
  set_operator(call, op);
  call.root = root;
  call.chunk_bytes[0] = bytes;
  call.input[0] = one_extent(bytes_at(send), bytes);
  if (seat.rank == root) call.output[0] = one_extent(bytes_at(receive), bytes);
  return call;
}

Call gather_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root) {
  need_rank("root", root, seat.size);
  Call call = equal_chunks(CallKind::gather, seat, count, type);
  const std::size_t bytes = call.chunk_bytes[0];
  need_buffer("sendbuff", send, bytes);
  call.root = root;
  of_rank(call.input, seat.rank) = one_extent(bytes_at(send), bytes);
  if (seat.rank == root) {
    need_buffer("recvbuff", receive, bytes);
    call.output = consecutive(receive, call.chunk_bytes);
  }
  return call;
}

Call scatter_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type, int root) {
  need_rank("root", root, seat.size);
  Call call = equal_chunks(CallKind::scatter, seat, count, type);
  const std::size_t bytes = call.chunk_bytes[0];
  need_buffer("recvbuff", receive, bytes);
  call.root = root;
  of_rank(call.output, seat.rank) = one_extent(bytes_at(receive), bytes);
  if (seat.rank == root) {
    need_buffer("sendbuff", send, bytes);
    call.input = consecutive(send, call.chunk_bytes);
  }
  return call;
}

Call all_to_all_call(Seat seat, const void* send, void* receive, std::size_t count, DataType type) {
  Call call = equal_chunks(CallKind::all_to_all, seat, count, type);
  need_buffer("sendbuff", send, call.chunk_bytes[0]);
  need_buffer("recvbuff", receive, call.chunk_bytes[0]);
  if (send == receive && count > 0)
    fail(ErrorKind::invalid_argument,
         "sendbuff and recvbuff are the same: all-to-all does not work in place");
  call.input = consecutive(send, call.chunk_bytes);
  call.output = consecutive(receive, call.chunk_bytes);
  return call;
}

Call send_call(Seat seat, const void* send, std::size_t count, DataType type, int peer) {
  return message_call(seat, Message::Direction::send, send, count, type, peer);
}

Call receive_call(Seat seat, void* receive, std::size_t count, DataType type, int peer) {
  return message_call(seat, Message::Direction::receive, receive, count, type, peer);
}

Call barrier_call() { return {}; }

void set_chunk_bytes(std::vector<std::size_t>& chunk_bytes, const PlainCall& plain, int size) {
  if (plain.kind == CallKind::all_reduce) {
    chunk_bytes.resize(static_cast<std::size_t>(size));
    share_out(chunk_bytes, plain.count, plain.type);
  } else {
    chunk_bytes.assign(static_cast<std::size_t>(size), plain.count * size_of(plain.type));
  }
}

Call call_of(Seat seat, const PlainCall& plain) {
  switch (plain.kind) {
    case CallKind::all_reduce:
      return all_reduce_call(seat, plain.send, plain.receive, plain.count, plain.type, plain.op);
    case CallKind::all_gather:
      return all_gather_call(seat, plain.send, plain.receive, plain.count, plain.type);
    case CallKind::reduce_scatter:
      return reduce_scatter_call(seat, plain.send, plain.receive, plain.count, plain.type, plain.op);
    case CallKind::barrier:
      return barrier_call();
    case CallKind::broadcast:
    case CallKind::reduce:
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::messages:
      break;
  }
  fail(ErrorKind::internal, "{} is no plain call", name_of(plain.kind));
}

bool joins(const Call& batch, const Call& call) {
  if (batch.kind != call.kind) return false;
  if (batch.kind == CallKind::messages) return true;
  return batch.kind != CallKind::barrier && batch.type == call.type && batch.op == call.op &&
         batch.scalar == call.scalar && batch.root == call.root &&
         batch.members < std::numeric_limits<std::uint8_t>::max();
}

void join(Call& batch, Call call) {
  batch.shape = mix(mix(batch.shape, call.count), call.shape);
  batch.count += call.count;
  ++batch.members;
  for (std::size_t chunk = 0; chunk < batch.chunk_bytes.size(); ++chunk)
    batch.chunk_bytes[chunk] += call.chunk_bytes[chunk];
  append(batch.input, std::move(call.input));
  append(batch.output, std::move(call.output));
  batch.messages.insert(batch.messages.end(), call.messages.begin(), call.messages.end());
}

}  // namespace rondo
