// Counts and offsets beyond 32 bits, without the memory, and a call counter that passes 2^32.
#include <unistd.h>

#include <limits>

#include "src/calls.h"
#include "src/extent.h"
#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

constexpr std::size_t three_billion = 3'000'000'000;

// Addresses are only computed with, never followed.
std::byte* address(std::uintptr_t at) { return reinterpret_cast<std::byte*>(at); }

std::uintptr_t offset_of(const Extents& chunk, const std::byte* base) {
  return static_cast<std::uintptr_t>(chunk.at(0).data - base);
}

TEST(LargeOffsets, AllGatherOfThreeBillionElementsFromEightRanks) {
  std::byte* const receive = address(0x1000);
  const Call call = all_gather_call({7, 8}, address(0x20), receive, three_billion, DataType::i64);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(call.chunk_bytes[rank], 24'000'000'000u);
    EXPECT_EQ(offset_of(call.output[rank], receive), rank * 24'000'000'000u);
    EXPECT_EQ(total_bytes(call.output[rank]), 24'000'000'000u);
  }
  EXPECT_EQ(expected_payload(call, Algorithm::ring, 7, 8)[0], 7 * 24'000'000'000u);
  EXPECT_EQ(expected_payload(call, Algorithm::direct, 7, 8)[3], 24'000'000'000u);
}

TEST(LargeOffsets, ReduceScatterAndAllToAllLikewise) {
  std::byte* const send = address(0x1000);
  const Call scatter = reduce_scatter_call({3, 8}, send, address(0x20), three_billion, DataType::i8, {});
  const Call exchange = all_to_all_call({3, 8}, send, address(0x40), three_billion, DataType::i8);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(offset_of(scatter.input[rank], send), rank * three_billion);
    EXPECT_EQ(offset_of(exchange.input[rank], send), rank * three_billion);
    EXPECT_EQ(offset_of(exchange.output[rank], address(0x40)), rank * three_billion);
  }
  EXPECT_EQ(scatter.output[3].at(0).bytes, three_billion);
}

TEST(LargeOffsets, AllReduceSharesOutWhatDoesNotDivide) {
  std::byte* const send = address(0x1000);
  const std::size_t count = 8 * three_billion + 5;
  const Call call = all_reduce_call({0, 8}, send, send, count, DataType::f32, {});
  std::uintptr_t offset = 0;
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(call.chunk_bytes[rank], 4 * (three_billion + (rank < 5 ? 1 : 0)));
    EXPECT_EQ(offset_of(call.output[rank], send), offset);
    offset += call.chunk_bytes[rank];
  }
  EXPECT_EQ(offset, 4 * count);
}

TEST(LargeOffsets, UnevenCountsAddUpInSixtyFourBits) {
  const std::vector<std::size_t> counts{three_billion, 1, three_billion, 5'000'000'000};
  std::byte* const receive = address(0x1000);
  const Call call = all_gather_v_call({3, 4}, address(0x20), receive, counts, DataType::f16);
  EXPECT_EQ(offset_of(call.output[3], receive), 2 * (2 * three_billion + 1));
  EXPECT_EQ(call.count, 2 * three_billion + 1 + 5'000'000'000);
}

TEST(LargeOffsets, ASliceFarInAnExtentList) {
  const Extents list{
      {address(0x1000), three_billion}, {address(0x10), 0}, {address(1ull << 40), 2 * three_billion}};
  const Extents part = slice(list, three_billion - 1, three_billion + 2);
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0].data, address(0x1000 + three_billion - 1));
  EXPECT_EQ(part[0].bytes, 1u);
  EXPECT_EQ(part[1].data, address(1ull << 40));
  EXPECT_EQ(part[1].bytes, three_billion + 1);
}

TEST(LargeOffsets, CountsThatNoAddressSpaceHoldsAreRefused) {
  std::byte* const buffer = address(0x1000);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  const auto expect_refused = [](auto call) {
    const std::string message = error_message(call);
    EXPECT_NE(message.find("do not fit the address space"), std::string::npos) << message;
  };
  for (const std::size_t count : {most, most / 2, most / 8 + 1, most / 16 + 1}) {
    expect_refused([&] { all_gather_call({0, 8}, buffer, buffer, count, DataType::i64); });
    expect_refused([&] { reduce_scatter_call({0, 8}, buffer, buffer, count, DataType::i64, {}); });
    expect_refused([&] { all_reduce_call({0, 8}, buffer, buffer, count, DataType::i64, {}); });
    expect_refused([&] { send_call({0, 8}, buffer, count, DataType::i64, 1); });
  }
  // Each fits, all together do not.
  const std::vector<std::size_t> counts(8, most / 8);
  expect_refused([&] { all_gather_v_call({0, 8}, buffer, buffer, counts, DataType::i8); });
  expect_refused([&] { all_gather_call({0, 8}, buffer, buffer, most / 8 / 8 + 1, DataType::i64); });
}

// A rank goes on where its control lines in the segment stand, so a segment can be prepared as if four
// billion calls had been made.
TEST(CallCounter, PassesTwoToThe32) {
  constexpr int size = 3;
  const Settings settings = test_options().settings;
  const Fd memory = Segment::create(size, {settings.buffer_bytes, 4096});
  const auto segment = Segment::map(memory, size, {settings.buffer_bytes, 4096});
  const std::uint64_t start = (std::uint64_t{1} << 32) - 3;
  segment->arrivals().gathered = start;
  for (int rank = 0; rank < size; ++rank) segment->rank(rank).completed = start;
  run_threads(size, [&](int rank) {
    Membership membership{rank, size, segment, {}, {}, false, true};
    membership.peers.resize(size);
    membership.processes.assign(size, this_process());
    const auto comm = std::make_shared<Communicator>(std::move(membership), test_options());
    for (int call = 0; call < 10; ++call) {
      int value = rank + call, sum = 0;
      comm->run(all_reduce_call({rank, size}, &value, &sum, 1, DataType::i32, {}));
      EXPECT_EQ(sum, 3 + 3 * call);
    }
    comm->run(barrier_call());
    EXPECT_EQ(segment->rank(rank).completed, start + 11);
  });
}

// The streams' byte counters run freely, past 2^32 and past a power of two that is no multiple of their room.
TEST(StreamCounters, PassTwoToThe32) {
  constexpr std::size_t room = 1000;
  const Fd memory = Segment::create(2, {room, 0});
  const auto segment = Segment::map(memory, 2, {room, 0});
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) {
    segment->stream(from, to, Channel::collective).written = (std::uint64_t{1} << 32) - 1500;
    segment->stream(from, to, Channel::collective).read = (std::uint64_t{1} << 32) - 1500;
  }
  const auto a = make_shm_transport(segment, 0, 2), b = make_shm_transport(segment, 1, 2);
  std::vector<unsigned char> sent(5000), got(5000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 7 % 251);
  const Extent from{reinterpret_cast<std::byte*>(sent.data()), sent.size()};
  const Extent to{reinterpret_cast<std::byte*>(got.data()), got.size()};
  const Ticket out = a->post_send(1, Channel::collective, std::span(&from, 1), ByteClass::payload);
  const Ticket in = b->post_receive(0, Channel::collective, std::span(&to, 1));
  while (!a->done(out) || !b->done(in)) {
    const bool sender_moved = a->progress(), receiver_moved = b->progress();
    ASSERT_TRUE(sender_moved || receiver_moved);
  }
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace rondo::test
