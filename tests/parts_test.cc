// Calls on windows where ranks outnumber the cores, so that whoever runs moves the parts of those who wait
// for a core: results, in place too, the ledger by rank, and memory that is freed as soon as a call is done.
#include "src/parts.h"

#include <sched.h>

#include <array>
#include <memory>

#include "src/calls.h"
#include "src/gather_bytes.h"
#include "src/window.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

// While it lives, this thread, and what it starts, may run on two CPUs only.
class TwoCpus {
 public:
  TwoCpus() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t two;
    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &two);
    ::sched_setaffinity(0, sizeof two, &two);
  }
  ~TwoCpus() { ::sched_setaffinity(0, sizeof before_, &before_); }
  TwoCpus(const TwoCpus&) = delete;
  TwoCpus& operator=(const TwoCpus&) = delete;

 private:
  cpu_set_t before_;
};

class Parts : public ::testing::TestWithParam<RanksAre> {
 protected:
  void run(const std::function<void(Communicator&, Seat)>& body) {
    const TwoCpus narrow;
    run_ranks(
        4,
        [&](Communicator& comm) {
          ASSERT_TRUE(comm.oversubscribed());
          body(comm, {comm.rank(), comm.size()});
        },
        test_options(), GetParam());
  }
};

struct FreeWindow {
  void operator()(float* memory) const { free_window(memory); }
};
using Floats = std::unique_ptr<float[], FreeWindow>;

Floats floats(std::size_t count) {
  return Floats(static_cast<float*>(allocate_window(count * sizeof(float))));
}

float input(int rank, std::size_t index, int round) {
  return static_cast<float>((index + static_cast<std::size_t>(rank + round)) % 97);
}

float sum_of_inputs(int size, std::size_t index, int round) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += input(rank, index, round);
  return sum;
}

// `call`: with lists or without, which go by different code.
template <typename Call>
void run_all_kinds(Seat seat, int round, const Call& call) {
  const auto size = static_cast<std::size_t>(seat.size), rank = static_cast<std::size_t>(seat.rank);
  const std::size_t chunk = 2'000 + static_cast<std::size_t>(round % 5) * 333, all = chunk * size;
  {
    const Floats both = floats(all);
    for (std::size_t i = 0; i < all; ++i) both[i] = input(seat.rank, i, round);
    call(CallKind::all_reduce, both.get(), both.get(), all);
    for (std::size_t i = 0; i < all; ++i) ASSERT_EQ(both[i], sum_of_inputs(seat.size, i, round)) << i;
  }
  {
    const Floats send = floats(chunk), receive = floats(all);
    for (std::size_t i = 0; i < chunk; ++i) send[i] = input(seat.rank, i, round);
    call(CallKind::all_gather, send.get(), receive.get(), chunk);
    for (std::size_t i = 0; i < all; ++i)
      ASSERT_EQ(receive[i], input(static_cast<int>(i / chunk), i % chunk, round)) << i;
  }
  {
    const Floats send = floats(all), receive = floats(chunk);
    for (std::size_t i = 0; i < all; ++i) send[i] = input(seat.rank, i, round);
    call(CallKind::reduce_scatter, send.get(), receive.get(), chunk);
    for (std::size_t i = 0; i < chunk; ++i)
      ASSERT_EQ(receive[i], sum_of_inputs(seat.size, rank * chunk + i, round)) << i;
  }
}

// run_call(kind, send, receive, count)
template <typename RunCall>
void run_rounds(Communicator& comm, Seat seat, const RunCall& run_call) {
  constexpr int rounds = 60;
  comm.ledger().reset();
  for (int round = 0; round < rounds; ++round) run_all_kinds(seat, round, run_call);
  EXPECT_EQ(calls_on(comm, Algorithm::windows), 3u * rounds);
  EXPECT_EQ(ledger_matrix(comm, ByteClass::payload), expected_matrix(comm));
}

TEST_P(Parts, PlainCalls) {
  run([](Communicator& comm, Seat seat) {
    run_rounds(comm, seat, [&](CallKind kind, float* send, float* receive, std::size_t count) {
      comm.run(PlainCall{kind, DataType::f32, {}, send, receive, count});
    });
  });
}

TEST_P(Parts, CallsInLists) {
  run([](Communicator& comm, Seat seat) {
    run_rounds(comm, seat, [&](CallKind kind, float* send, float* receive, std::size_t count) {
      comm.run(call_of(seat, {kind, DataType::f32, {}, send, receive, count}));
    });
  });
}

TEST(PartsOfACall, AreTakenOnceAndLeaveANote) {
  constexpr int ranks = 3;
  constexpr std::uint64_t calls = 2'000;
  constexpr SegmentSizes sizes{4096, 0};
  const auto segment = Segment::map(Segment::create(ranks, sizes), ranks, sizes);
  std::array<std::array<std::uint64_t, ranks>, ranks> taken{};  // by who asks, then by part
  run_threads(ranks, [&](int rank) {
    for (std::uint64_t call = 1; call <= calls; ++call)
      for (int part = 0; part < ranks; ++part)
        if (begin_part(*segment, part, call))
          ++taken[static_cast<std::size_t>(rank)][static_cast<std::size_t>(part)];
  });
  for (std::size_t part = 0; part < ranks; ++part)
    EXPECT_LE(taken[0][part] + taken[1][part] + taken[2][part], calls) << "a part of a call was taken twice";
  EXPECT_FALSE(begin_part(*segment, 1, calls)) << "of a call that is over";
  EXPECT_TRUE(begin_part(*segment, 1, calls + 1));
  leave_note(*segment, 1, calls + 1, {5, 7});
  EXPECT_FALSE(note_of(*segment, 1, calls + 2));
  ASSERT_TRUE(note_of(*segment, 1, calls + 1));
  EXPECT_EQ(note_of(*segment, 1, calls + 1)->from_each, 7u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parts, ::testing::Values(RanksAre::processes, RanksAre::threads),
                         [](const auto& info) {
                           return info.param == RanksAre::processes ? "processes" : "threads";
                         });

}  // namespace
}  // namespace rondo::test
