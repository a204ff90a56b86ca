// Numbers that came out wrong in other libraries, through whole collectives and both algorithms.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/calls.h"
#include "src/engine.h"
#include "src/gather_bytes.h"
#include "src/group.h"
#include "tests/ranks.h"
#include "tests/typed_buffer.h"

namespace rondo::test {
namespace {

class Numbers : public ::testing::TestWithParam<Algorithm> {
 protected:
  void run(int size, const std::function<void(Communicator&, Seat)>& body,
           RanksAre kind = RanksAre::threads) {
    run_ranks(
        size,
        [&](Communicator& comm) {
          body(comm, {comm.rank(), comm.size()});
        },
        test_options(GetParam()), kind);
  }
};

std::uint64_t factor_of(DataType type, double value) {
  std::uint64_t scalar = 0;
  set_element(reinterpret_cast<std::byte*>(&scalar), type, value);
  return scalar;
}

// One element of a type, reduced by whichever call.
double all_reduced(Communicator& comm, DataType type, double mine, Operator op = {}) {
  TypedBuffer send(type, 1), receive(type, 1);
  send.fill([&](std::size_t) { return mine; });
  comm.run(all_reduce_call({comm.rank(), comm.size()}, send.data(), receive.data(), 1, type, op));
  return receive.get(0);
}

TEST_P(Numbers, ReduceScatterGivesRankRItsOwnChunk) {
  for (const int size : {1, 2, 3, 4, 5}) {
    run(size, [](Communicator& comm, Seat seat) {
      const auto ranks = static_cast<std::size_t>(seat.size);
      TypedBuffer send(DataType::i32, 3 * ranks), receive(DataType::i32, 3);
      send.fill([&](std::size_t i) { return 100 * static_cast<int>(i / 3) + seat.rank; });
      comm.run(reduce_scatter_call(seat, send.data(), receive.data(), 3, DataType::i32, {}));
      const int expected = 100 * seat.rank * seat.size + seat.size * (seat.size - 1) / 2;
      receive.expect([&](std::size_t) { return expected; });
      if (seat.size == 4) {
        EXPECT_EQ(expected, 400 * seat.rank + 6);
      }
    });
  }
}

TEST_P(Numbers, RanksAndCountsThatAreNoPowersOfTwo) {
  for (const int size : {3, 5, 6, 7}) {
    run(size, [](Communicator& comm, Seat seat) {
      const auto n = static_cast<std::size_t>(seat.size);
      for (const std::size_t count :
           {std::size_t{1}, std::size_t{2}, n - 1, n + 1, std::size_t{10}, std::size_t{1009}}) {
        TypedBuffer send(DataType::f64, count), receive(DataType::f64, count);
        const auto input = [&](int rank) {
          return [=](std::size_t i) { return (rank + 1.0) * static_cast<double>(i + 1); };
        };
        send.fill(input(seat.rank));
        comm.run(all_reduce_call(seat, send.data(), receive.data(), count, DataType::f64, {}));
        receive.expect([&](std::size_t i) { return static_cast<double>(n * (n + 1) / 2 * (i + 1)); });
        comm.run(
            all_reduce_call(seat, send.data(), receive.data(), count, DataType::f64, {ReduceOp::avg, 0}));
        receive.expect(
            [&](std::size_t i) { return static_cast<double>(n + 1) / 2 * static_cast<double>(i + 1); });
        for (int root = 0; root < seat.size; ++root) {
          comm.run(broadcast_call(seat, send.data(), receive.data(), count, DataType::f64, root));
          receive.expect(input(root));
        }
      }
    });
  }
}

TEST_P(Numbers, CountZeroSucceedsTouchesNothingAndLeavesAllWell) {
  run(3, [](Communicator& comm, Seat seat) {
    TypedBuffer in(DataType::f32, 15), out(DataType::f32, 15);
    const auto untouched = [](std::size_t) { return 9; };
    in.fill(untouched);
    out.fill(untouched);
    const DataType type = DataType::f32;
    for (const bool with_buffers : {true, false}) {
      void* send = with_buffers ? in.data() : nullptr;
      void* receive = with_buffers ? out.data() : nullptr;
      const std::vector<std::size_t> none(3);
      comm.run(all_reduce_call(seat, send, receive, 0, type, {}));
      comm.run(all_gather_call(seat, send, receive, 0, type));
      comm.run(all_gather_v_call(seat, send, receive, none, type));
      comm.run(reduce_scatter_call(seat, send, receive, 0, type, {}));
      comm.run(reduce_scatter_v_call(seat, send, receive, none, type, {}));
      comm.run(broadcast_call(seat, send, receive, 0, type, 1));
      comm.run(reduce_call(seat, send, receive, 0, type, {}, 1));
      comm.run(gather_call(seat, send, receive, 0, type, 1));
      comm.run(scatter_call(seat, send, receive, 0, type, 1));
      comm.run(all_to_all_call(seat, send, receive, 0, type));
      Call messages = send_call(seat, send, 0, type, (seat.rank + 1) % 3);
      join(messages, receive_call(seat, receive, 0, type, (seat.rank + 2) % 3));
      comm.run(std::move(messages));
    }
    in.expect(untouched);
    out.expect(untouched);
    in.fill([&](std::size_t) { return seat.rank; });
    comm.run(all_reduce_call(seat, in.data(), out.data(), 5, type, {}));
    out.expect([](std::size_t i) { return i < 5 ? 3 : 9; });
  });
}

TEST_P(Numbers, InPlaceCallsLeaveOtherChunksAlone) {
  run(3, [](Communicator& comm, Seat seat) {
    TypedBuffer buffer(DataType::i32, 15);
    const auto rank = static_cast<std::size_t>(seat.rank);
    buffer.fill([&](std::size_t i) { return 1000 * seat.rank + static_cast<int>(i); });
    comm.run(reduce_scatter_call(seat, buffer.data(), buffer.at(5 * rank), 5, DataType::i32, {}));
    buffer.expect([&](std::size_t i) {
      return i / 5 == rank ? 3000 + 3 * static_cast<int>(i) : 1000 * seat.rank + static_cast<int>(i);
    });
    comm.run(all_gather_call(seat, buffer.at(5 * rank), buffer.data(), 5, DataType::i32));
    buffer.expect([](std::size_t i) { return 3000 + 3 * static_cast<int>(i); });
  });
}

TEST_P(Numbers, ReduceLeavesPartialSumsNowhere) {
  run(4, [](Communicator& comm, Seat seat) {
    TypedBuffer send(DataType::f32, 7), receive(DataType::f32, 7);
    send.fill([&](std::size_t) { return seat.rank + 1; });
    receive.fill([](std::size_t) { return 77; });
    comm.run(reduce_call(seat, send.data(), receive.data(), 7, DataType::f32, {}, 2));
    send.expect([&](std::size_t) { return seat.rank + 1; });
    receive.expect([&](std::size_t) { return seat.rank == 2 ? 10 : 77; });
  });
}

// Memory whose last byte is followed by a page that nobody may touch.
class EdgeOfMemory {
 public:
  EdgeOfMemory()
      : base_(static_cast<std::byte*>(
            ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(base_ + page, page, PROT_NONE);
  }
  ~EdgeOfMemory() { ::munmap(base_, 2 * page); }
  EdgeOfMemory(const EdgeOfMemory&) = delete;
  EdgeOfMemory& operator=(const EdgeOfMemory&) = delete;

  std::byte* last(std::size_t bytes) const { return base_ + page - bytes; }

 private:
  static constexpr std::size_t page = 4096;
  std::byte* base_;
};

TEST_P(Numbers, BuffersMayBeginAnywhereAndEndAtTheEdgeOfMemory) {
  run(3, [](Communicator& comm, Seat seat) {
    const EdgeOfMemory send, receive;
    for (const DataType type : all_types()) {
      const std::size_t element = size_of(type);
      for (std::size_t count = 1; count <= 33; ++count) {
        // At the end of the page, and once more a byte before: aligned for no type but those of one byte.
        for (const std::size_t before : {std::size_t{0}, std::size_t{1}}) {
          std::byte* from = send.last(count * element + before);
          std::byte* to = receive.last(count * element + before);
          for (std::size_t i = 0; i < count; ++i)
            set_element(from + i * element, type, seat.rank + static_cast<double>(i % 7));
          comm.run(all_reduce_call(seat, from, to, count, type, {}));
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(get_element(to + i * element, type), 3 + 3 * static_cast<double>(i % 7))
                << name_of(type) << " " << count;
          comm.run(broadcast_call(seat, from, to, count, type, 1));
          ASSERT_EQ(get_element(to + (count - 1) * element, type), 1 + static_cast<double>((count - 1) % 7));
        }
      }
    }
  });
}

TEST_P(Numbers, NanWinsMinAndMaxWhoeverHoldsIt) {
  run(4, [](Communicator& comm, Seat seat) {
    for (const DataType type : {DataType::f16, DataType::f32, DataType::f64, DataType::bf16}) {
      for (int holder = 0; holder < 4; ++holder) {
        const double values[] = {7, -2, 9, 4};
        const double mine = seat.rank == holder ? NAN : values[seat.rank];
        EXPECT_TRUE(std::isnan(all_reduced(comm, type, mine, {ReduceOp::min, 0}))) << name_of(type) << holder;
        EXPECT_TRUE(std::isnan(all_reduced(comm, type, mine, {ReduceOp::max, 0}))) << name_of(type) << holder;
      }
      for (int holder = 0; holder < 4; ++holder) {
        const double zero = seat.rank == holder ? -0.0 : 0.0;
        EXPECT_TRUE(std::signbit(all_reduced(comm, type, zero, {ReduceOp::min, 0})));
        EXPECT_FALSE(std::signbit(all_reduced(comm, type, zero, {ReduceOp::max, 0})));
      }
    }
  });
}

TEST_P(Numbers, IntegerAverageTruncatesTowardZeroInEveryReduction) {
  run(2, [](Communicator& comm, Seat seat) {
    for (const int sign : {1, -1}) {
      const Operator avg{ReduceOp::avg, 0};
      TypedBuffer send(DataType::i32, 6), receive(DataType::i32, 3);
      send.fill([&](std::size_t) { return sign * (seat.rank == 0 ? 5 : 8); });
      const auto six = [&](std::size_t) { return sign * 6; };
      comm.run(all_reduce_call(seat, send.data(), receive.data(), 3, DataType::i32, avg));
      receive.expect(six);
      receive.fill(six);
      comm.run(reduce_call(seat, send.data(), receive.data(), 3, DataType::i32, avg, 1));
      receive.expect(six);
      receive.fill([](std::size_t) { return 0; });
      comm.run(reduce_scatter_call(seat, send.data(), receive.data(), 3, DataType::i32, avg));
      receive.expect(six);
    }
  });
}

TEST_P(Numbers, FactorsAreReadInTheirOwnType) {
  run(3, [](Communicator& comm, Seat seat) {
    for (const DataType type : {DataType::f16, DataType::f32, DataType::f64, DataType::bf16}) {
      for (const double factor : {0.25, 2.0}) {
        // 4, 8 and 12: exact in every type and order.
        EXPECT_EQ(
            all_reduced(comm, type, 4 * (seat.rank + 1), {ReduceOp::premul_sum, factor_of(type, factor)}),
            24 * factor);
      }
      const double third =
          all_reduced(comm, type, 1 << seat.rank, {ReduceOp::premul_sum, factor_of(type, 1.0 / 3)});
      EXPECT_NEAR(third, 7.0 / 3, 7.0 / 3 / 100) << name_of(type);
    }
  });
}

TEST_P(Numbers, AllRanksAndRunsGiveTheSameBits) {
  run(4, [](Communicator& comm, Seat seat) {
    const float values[] = {0x1p25f, 3, -0x1p25f, 5};
    std::string first;
    for (int round = 0; round < 25; ++round) {
      std::vector<float> send(4097, values[seat.rank]), receive(4097);
      comm.run(all_reduce_call(seat, send.data(), receive.data(), send.size(), DataType::f32, {}));
      const std::string bits(reinterpret_cast<const char*>(receive.data()), receive.size() * sizeof(float));
      if (round == 0) {
        first = bits;
        for (const std::string& other : gather_bytes(comm, bits))
          EXPECT_TRUE(other == bits) << "ranks differ";
      }
      EXPECT_TRUE(bits == first) << "run " << round << " differs";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Numbers,
                         ::testing::Values(Algorithm::ring, Algorithm::direct, Algorithm::one_shot,
                                           Algorithm::doubling),
                         [](const auto& info) { return test_name(info.param); });

// ---- rank order: what auto, direct, one-shot and doubling promise, and a forced ring does not ----

template <typename Body>
void run_in_rank_order(int size, Body body) {
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::one_shot, Algorithm::doubling})
    run_ranks(
        size,
        [&](Communicator& comm) {
          body(comm, Seat{comm.rank(), comm.size()});
        },
        test_options(algorithm), RanksAre::threads);
}

TEST(RankOrder, SumsDependNeitherOnPlaceNorOnSizeNorOnCompany) {
  run_in_rank_order(4, [](Communicator& comm, Seat seat) {
    // In rank order (2^25 + 3) is 2^25 + 4, minus 2^25 is 4 and with 5 is 9; (exactly it is 8).
    const float values[] = {0x1p25f, 3, -0x1p25f, 5};
    const float expected = ((values[0] + values[1]) + values[2]) + values[3];
    for (const std::size_t count : {1u, 2u, 5u, 64u, 4097u}) {
      std::vector<float> send(count, values[seat.rank]), receive(count), other(3, values[seat.rank]),
          fused(3);
      comm.run(all_reduce_call(seat, send.data(), receive.data(), count, DataType::f32, {}));
      EXPECT_EQ(receive, std::vector<float>(count, expected)) << count;
      std::fill(receive.begin(), receive.end(), 0.f);
      const auto shared = comm.shared_from_this();
      group_start();
      submit(shared, all_reduce_call(seat, other.data(), fused.data(), 3, DataType::f32, {}), {});
      submit(shared, all_reduce_call(seat, send.data(), receive.data(), count, DataType::f32, {}), {});
      group_end();
      EXPECT_EQ(receive, std::vector<float>(count, expected)) << count << " in a group";
      EXPECT_EQ(fused, std::vector<float>(3, expected));
    }
  });
}

TEST(RankOrder, SixteenBitTypesAccumulateInF32) {
  run_in_rank_order(6, [](Communicator& comm, Seat seat) {
    EXPECT_EQ(all_reduced(comm, DataType::bf16, seat.rank == 0 ? 512 : 3), 528);
  });
  run_in_rank_order(4, [](Communicator& comm, Seat seat) {
    const double values[] = {49984, 30000, -49984, -30000};
    EXPECT_EQ(all_reduced(comm, DataType::f16, values[seat.rank]), 0);
  });
}

TEST(RankOrder, AveragesOfHalfNeitherOverflowNorVanish) {
  run_in_rank_order(8, [](Communicator& comm, Seat) {
    EXPECT_EQ(all_reduced(comm, DataType::f16, 9000, {ReduceOp::avg, 0}), 9000);
    EXPECT_EQ(all_reduced(comm, DataType::f16, 0x1p-24, {ReduceOp::avg, 0}), 0x1p-24);
  });
}

// A forced ring rounds at each hop. That is its documented limit: the same on every rank, but another number.
TEST(RingOrder, RoundsAtEachHopAlikeOnAllRanks) {
  run_ranks(
      6,
      [](Communicator& comm) {
        const Seat seat{comm.rank(), comm.size()};
        TypedBuffer send(DataType::bf16, 6), receive(DataType::bf16, 6);
        send.fill([&](std::size_t) { return seat.rank == 0 ? 512 : 3; });
        comm.run(all_reduce_call(seat, send.data(), receive.data(), 6, DataType::bf16, {}));
        for (std::size_t i = 0; i < 6; ++i) {
          EXPECT_GE(receive.get(i), 512);
          EXPECT_LE(receive.get(i), 532);
        }
        const std::string bits(reinterpret_cast<const char*>(receive.data()), 12);
        for (const std::string& other : gather_bytes(comm, bits)) EXPECT_EQ(other, bits);
      },
      test_options(Algorithm::ring), RanksAre::threads);
}

}  // namespace
}  // namespace rondo::test
