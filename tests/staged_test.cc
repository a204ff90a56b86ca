// Calls through staging areas as callers make them: of one round and of many, after and before calls that go
// other ways, with ranks that come late, that disagree, or whose buffers lie in windows.
#include <memory>
#include <random>
#include <thread>

#include "src/calls.h"
#include "src/window.h"
#include "tests/ranks.h"
#include "tests/typed_buffer.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t staging_bytes = 64 * 1024;

class StagedCalls : public ::testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(Communicator&, Seat)>& body, RanksAre kind = RanksAre::processes) {
    CommunicatorOptions options = test_options();
    options.settings.staging_bytes = staging_bytes;
    run_ranks(
        GetParam(),
        [&](Communicator& comm) {
          body(comm, {comm.rank(), comm.size()});
        },
        options, kind);
  }
};

double input(int rank, std::size_t index, int salt) {
  return static_cast<double>((index * 7 + 3 + static_cast<std::size_t>(salt)) % 5 +
                             static_cast<std::size_t>(rank) % 2);
}

double sum_of_inputs(int size, std::size_t index, int salt) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += input(rank, index, salt);
  return sum;
}

// One plain call with sentinels around its buffers, and its result. `salt` tells its data from other calls'.
void call(Communicator& comm, CallKind kind, DataType type, std::size_t count, bool in_place, int salt) {
  const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
  const bool scatters = kind == CallKind::reduce_scatter, gathers = kind == CallKind::all_gather;
  TypedBuffer send(type, scatters ? count * ranks : count), receive(type, gathers ? count * ranks : count);
  const auto mine = [&](std::size_t i) { return input(comm.rank(), i, salt); };
  send.fill(mine);
  std::byte* from = send.data();
  std::byte* to = receive.data();
  if (in_place && gathers) {
    from = receive.at(rank * count);
    std::memcpy(from, send.data(), count * size_of(type));
  } else if (in_place) {
    to = scatters ? send.at(rank * count) : send.data();
  }
  comm.run(PlainCall{kind, type, {}, from, to, count});
  const auto reduced = [&](std::size_t i) {
    return sum_of_inputs(comm.size(), scatters ? rank * count + i : i, salt);
  };
  const auto is_mine = [&](std::size_t i) {
    return scatters ? i / std::max<std::size_t>(count, 1) == rank : true;
  };
  if (gathers) {
    receive.expect([&](std::size_t i) { return input(static_cast<int>(i / count), i % count, salt); });
  } else if (in_place) {
    send.expect(
        [&](std::size_t i) { return is_mine(i) ? reduced(scatters ? i - rank * count : i) : mine(i); });
  } else {
    receive.expect(reduced);
    send.expect(mine);
  }
}

constexpr CallKind kinds[] = {CallKind::all_reduce, CallKind::all_gather, CallKind::reduce_scatter};

// Elements of 4 bytes whose chunks are one less, as much and one more than slots and a round hold, and more.
std::vector<std::size_t> edge_counts(CallKind kind, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t slot = slot_bytes / 4 / (kind == CallKind::reduce_scatter ? ranks : 1);
  const std::size_t slice =
      staging_bytes / 2 / ranks / 64 * 64 / 4 * (kind == CallKind::all_reduce ? ranks : 1);
  return {1, slot, slot + 1, 2 * slot + 3, slice - 1, slice, slice + 1, 2 * slice + 1, 5 * slice + 7};
}

TEST_P(StagedCalls, AreRightAtEveryEdge) {
  run([](Communicator& comm, Seat seat) {
    int salt = 0;
    for (const CallKind kind : kinds)
      for (const std::size_t count : edge_counts(kind, seat.size))
        for (const bool in_place : {false, true}) call(comm, kind, DataType::i32, count, in_place, ++salt);
    EXPECT_EQ(calls_on(comm, Algorithm::staged) + calls_on(comm, Algorithm::slots), 54u);
  });
}

// Places change hands from round to round: any order of kinds and sizes, with calls that go other ways
// between.
TEST_P(StagedCalls, MixInAnyOrder) {
  for (const RanksAre ranks : {RanksAre::processes, RanksAre::threads}) {
    run(
        [](Communicator& comm, Seat seat) {
          std::minstd_rand random(7);  // the same on all ranks
          for (int turn = 0; turn < 300; ++turn) {
            const CallKind kind = kinds[random() % 3];
            const auto counts = edge_counts(kind, seat.size);
            call(comm, kind, random() % 2 == 0 ? DataType::f32 : DataType::bf16,
                 counts[random() % counts.size()], random() % 2 == 0, turn);
            if (random() % 3 == 0) comm.run(PlainCall{});  // a barrier
          }
        },
        ranks);
  }
}

// Calls of a group and plain ones use the same rounds.
TEST_P(StagedCalls, GroupsAndPlainCallsTakeTurns) {
  run([](Communicator& comm, Seat seat) {
    for (int turn = 0; turn < 20; ++turn) {
      const std::size_t first = 1501, second = 3 + static_cast<std::size_t>(turn) * 400;
      TypedBuffer one(DataType::f32, first), other(DataType::f32, second);
      one.fill([&](std::size_t i) { return input(seat.rank, i, turn); });
      other.fill([&](std::size_t i) { return input(seat.rank, i, turn + 1); });
      Call batch = all_reduce_call(seat, one.data(), one.data(), first, DataType::f32, {});
      join(batch, all_reduce_call(seat, other.data(), other.data(), second, DataType::f32, {}));
      comm.run(std::move(batch));
      one.expect([&](std::size_t i) { return sum_of_inputs(seat.size, i, turn); });
      other.expect([&](std::size_t i) { return sum_of_inputs(seat.size, i, turn + 1); });
      call(comm, kinds[turn % 3], DataType::f32, 2000, false, turn);
    }
  });
}

// Who comes late finds the others' rounds filled; who waits for one becomes a pending call.
TEST_P(StagedCalls, SomeComeLate) {
  run([](Communicator& comm, Seat seat) {
    for (int turn = 0; turn < 9; ++turn) {
      if (turn % seat.size == seat.rank) std::this_thread::sleep_for(5ms);
      call(comm, kinds[turn % 3], DataType::f32, 3001, false, turn);
    }
  });
}

// What was filled ahead of a call that is refused is nobody's: neither data nor payload.
TEST_P(StagedCalls, ARefusedCallLeavesNoTrace) {
  run([](Communicator& comm, Seat seat) {
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<float> send(8000), receive(8000 * static_cast<std::size_t>(seat.size));
      const std::size_t count = seat.rank == 0 ? 4000 : 4001;
      EXPECT_THROW(
          comm.run(PlainCall{CallKind::all_gather, DataType::f32, {}, send.data(), receive.data(), count}),
          Error);
      const PlainCall barrier;
      const PlainCall gather{CallKind::all_gather, DataType::f32, {}, send.data(), receive.data(), 5000};
      EXPECT_THROW(comm.run(seat.rank == 0 ? barrier : gather), Error);
      call(comm, kinds[turn % 3], DataType::i32, 2500, false, turn);
    }
    EXPECT_EQ(calls_on(comm, Algorithm::staged), 6u);
  });
}

// A rank whose buffers lie in windows does not fill ahead, since the call might go by windows: it goes by
// areas, and the others have filled theirs.
TEST_P(StagedCalls, SomeBuffersLieInWindows) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size);
    for (int turn = 0; turn < 12; ++turn) {
      const CallKind kind = kinds[turn % 3];
      const std::size_t count = 2003;
      const std::size_t bytes = count * ranks * 4;
      const std::unique_ptr<void, decltype(&free_window)> window(allocate_window(2 * bytes), free_window);
      std::vector<float> heap(2 * count * ranks);
      float* const send = (turn + seat.rank) % 2 == 0 ? static_cast<float*>(window.get()) : heap.data();
      float* const receive = send + count * ranks;
      const bool scatters = kind == CallKind::reduce_scatter, gathers = kind == CallKind::all_gather;
      for (std::size_t i = 0; i < count * ranks; ++i) send[i] = static_cast<float>(input(seat.rank, i, turn));
      comm.run(PlainCall{kind, DataType::f32, {}, send, receive, count});
      const std::size_t offset = scatters ? static_cast<std::size_t>(seat.rank) * count : 0;
      for (std::size_t i = 0; i < (gathers ? count * ranks : count); ++i)
        ASSERT_EQ(receive[i], gathers ? input(static_cast<int>(i / count), i % count, turn)
                                      : sum_of_inputs(seat.size, offset + i, turn))
            << "element " << i << " of call " << turn;
      comm.run(barrier_call());
    }
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 0u);
    EXPECT_EQ(calls_on(comm, Algorithm::staged), 12u);
  });
}

INSTANTIATE_TEST_SUITE_P(All, StagedCalls, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace rondo::test
