// The C++ header, used as a program would use it: no header of the core beside it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <rondo/rondo.hpp>

namespace {

using rondo::Communicator;
using Ints = std::vector<int>;

// Every rank a thread of this process.
void with_ranks(int size, const std::function<void(Communicator&)>& body) {
  auto all = Communicator::all_in_process(size);
  std::vector<std::jthread> threads;
  for (Communicator& one : all) {
    threads.emplace_back([&body, &one] {
      try {
        body(one);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << one.rank() << ": " << error.what();
      }
    });
  }
}

// What a call that must be refused says.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const rondo::Exception& error) {
    EXPECT_EQ(error.result(), rondoInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Hpp, MemoryIsABufferAndTheHeapCanBecomeOne) {
  with_ranks(2, [](Communicator& comm) {
    const rondo::Memory<float> memory(5000);
    EXPECT_EQ(memory[4999], 0);
    std::ranges::fill(memory, 1.5f);
    comm.all_reduce(memory);
    EXPECT_EQ(memory[4999], 3);
    // Whole pages, since the other rank is a thread that uses the heap too.
    constexpr std::size_t count = 25 * 4096;
    const std::unique_ptr<float[], decltype(&std::free)> heap(
        static_cast<float*>(std::aligned_alloc(4096, count * sizeof(float))), std::free);
    const std::span<float> span(heap.get(), count);
    std::ranges::fill(span, 2.0f);
    {
      const rondo::Registration registration(comm, span);
      span[0] = 4;
      comm.all_reduce(span);
      EXPECT_EQ(span[0], 8);
      comm.barrier();
    }
    EXPECT_EQ(span[0], 8);
    EXPECT_EQ(span[count - 1], 4);
  });
  EXPECT_NE(refusal([] { const rondo::Memory<int> none(0); }).find("size 0"), std::string::npos);
}

TEST(Hpp, EveryCollectiveTakesVectorsArraysAndSpansFromThreads) {
  with_ranks(3, [](Communicator& comm) {
    const int rank = comm.rank();
    const Ints mine{rank, 10 + rank};
    Ints two(2), six(6);

    comm.all_reduce(mine, two);
    EXPECT_EQ(two, (Ints{3, 33}));
    comm.all_reduce(two, rondo::max);
    EXPECT_EQ(two, (Ints{3, 33}));

    comm.all_gather(mine, six);
    EXPECT_EQ(six, (Ints{0, 10, 1, 11, 2, 12}));
    Ints gathered(6, -1);
    gathered[static_cast<std::size_t>(2 * rank)] = rank;
    gathered[static_cast<std::size_t>(2 * rank + 1)] = 10 + rank;
    comm.all_gather(gathered);
    EXPECT_EQ(gathered, six);

    comm.reduce_scatter(six, two);
    EXPECT_EQ(two, (Ints{3 * rank, 3 * (10 + rank)}));
    comm.reduce_scatter(gathered);
    EXPECT_EQ(gathered[static_cast<std::size_t>(2 * rank)], 3 * rank);

    std::array<double, 2> shared{rank + 0.5, 1};
    comm.broadcast(shared, 2);
    EXPECT_EQ(shared[0], 2.5);
    const Ints before = two;
    comm.reduce(mine, rank == 1 ? std::span(two) : std::span<int>(), 1);
    EXPECT_EQ(two, rank == 1 ? (Ints{3, 33}) : before);

    comm.gather(mine, rank == 0 ? std::span(six) : std::span<int>(), 0);
    comm.scatter(rank == 0 ? six : Ints{}, two, 0);
    EXPECT_EQ(two, mine);

    const Ints blocks{rank, rank + 10, rank + 20};
    Ints three(3);
    comm.all_to_all(blocks, three);
    EXPECT_EQ(three, (Ints{10 * rank, 10 * rank + 1, 10 * rank + 2}));

    const std::vector<std::size_t> counts{2, 0, 1};
    const Ints part(counts[static_cast<std::size_t>(rank)], rank);
    comm.all_gather_v(part, three, counts);
    EXPECT_EQ(three, (Ints{0, 0, 2}));
    Ints own(part.size());
    comm.reduce_scatter_v(three, own, counts);
    EXPECT_EQ(own, Ints(part.size(), 3 * rank));

    comm.barrier();
  });
}

TEST(Hpp, MessagesMeetInAGroupFromThreads) {
  with_ranks(2, [](Communicator& comm) {
    const Ints out{comm.rank() + 7};
    Ints in(1);
    rondo::Group group;
    comm.send(out, 1 - comm.rank());
    comm.recv(std::span(in), 1 - comm.rank());
    group.end();
    EXPECT_EQ(in[0], 8 - comm.rank());
  });
}

TEST(Hpp, AGroupLeftByAnExceptionIsClosedFromThreads) {
  with_ranks(2, [](Communicator& comm) {
    std::vector<float> values{1, 2};
    try {
      const rondo::Group group;
      comm.all_reduce(values);
      throw std::runtime_error("a program's own");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(values[1], 4);
    comm.all_reduce(values);
    EXPECT_EQ(values[1], 8);
  });
}

TEST(Hpp, WorkGoesOnWhileItsCallerDoesFromThreads) {
  with_ranks(2, [](Communicator& comm) {
    std::vector<float> values(100'000, 1);
    auto work = rondo::start([&](rondoStream_t stream) {
      comm.all_reduce(values, rondo::sum, stream);
      comm.all_reduce(values, rondo::sum, stream);
    });
    EXPECT_TRUE(work.wait(std::chrono::seconds(30)));
    EXPECT_TRUE(work.test());
    EXPECT_EQ(values.front(), 4);
    EXPECT_EQ(values.back(), 4);
    comm.barrier();
    auto late = rondo::start([&](rondoStream_t stream) {
      if (comm.rank() == 1) comm.barrier(stream);
    });
    if (comm.rank() == 1) {
      EXPECT_FALSE(late.wait(std::chrono::milliseconds(20)));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      comm.barrier();
    }
    late.wait();
  });
}

TEST(Hpp, FactorsOfEveryFloatTypeFromThreads) {
  with_ranks(2, [](Communicator& comm) {
    std::vector<float> values{4};
    comm.all_reduce(values, rondo::PreMulSum(comm, 0.25f));
    EXPECT_EQ(values[0], 2);
    std::vector<rondo::bf16> small{{0x4080}};  // 4
    comm.all_reduce(small, rondo::PreMulSum(comm, rondo::bf16{0x3e80}));
    EXPECT_EQ(small[0].bits, 0x4000);
    std::vector<rondo::f16> half{{0x4400}};  // 4
    comm.all_reduce(half, rondo::PreMulSum(comm, rondo::f16{0x3400}));
    EXPECT_EQ(half[0].bits, 0x4000);
  });
}

TEST(Hpp, WrongSizesNameCallArgumentAndNumbers) {
  auto comm = std::move(Communicator::all_in_process(1).front());
  Ints two(2), three(3);
  EXPECT_EQ(refusal([&] { comm.all_reduce(two, three); }), "all_reduce: receive has 3 elements: expected 2");
  EXPECT_EQ(refusal([&] { comm.all_gather(two, three); }), "all_gather: receive has 3 elements: expected 2");
  EXPECT_EQ(refusal([&] { comm.reduce_scatter(two, three); }),
            "reduce_scatter: send has 2 elements: expected 3");
  const std::vector<std::size_t> counts{3};
  EXPECT_EQ(refusal([&] { comm.all_gather_v(two, three, counts); }),
            "all_gather_v: send has 2 elements: expected 3");
  EXPECT_EQ(refusal([&] {
              comm.all_gather_v(two, three, std::vector<std::size_t>{1, 2});
            }),
            "all_gather_v: counts has 2 elements: expected 1");
  EXPECT_EQ(refusal([&] { comm.broadcast(two, 5); }), "rondoBroadcast: root 5: expected a rank from 0 to 0");
}

TEST(Hpp, SplitScopesAndLedgerFromThreads) {
  with_ranks(4, [](Communicator& comm) {
    auto half = comm.split(comm.rank() % 2, -comm.rank());
    ASSERT_TRUE(half);
    EXPECT_EQ(half->size(), 2);
    EXPECT_EQ(half->rank(), comm.rank() < 2 ? 1 : 0);
    EXPECT_FALSE(comm.split(-1));
    {
      const rondo::LedgerScope scope(*half, "gradients");
      std::vector<float> values(100, 1);
      half->all_reduce(values);
    }
    EXPECT_NE(half->ledger_json().find("\"gradients\""), std::string::npos);
    EXPECT_EQ(half->ledger_matrix(), (std::vector<std::uint64_t>{0, 400, 400, 0}));
    half->ledger_reset();
  });
}

TEST(Hpp, AnAbortedCommunicatorIsOfNoMoreUse) {
  auto comm = std::move(Communicator::all_in_process(1).front());
  Communicator moved = std::move(comm);
  moved.abort();
  Ints one(1);
  EXPECT_NE(refusal([&] { moved.all_reduce(one); }), "no error");
}

TEST(Hpp, AnIdTravelsAsBytesToForkedProcesses) {
  const rondo::UniqueId id;
  std::array<std::byte, RONDO_UNIQUE_ID_BYTES> bytes;
  std::copy(id.bytes().begin(), id.bytes().end(), bytes.begin());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::vector<long> value{rank};
      try {
        auto comm =
            Communicator::from_id(rondo::UniqueId(bytes), 3, rank,
                                  {.timeout = std::chrono::seconds(30), .strict = true, .algorithm = "ring"});
        comm.all_reduce(value);
      } catch (const std::exception& error) {
        std::fputs(error.what(), stderr);
      }
      _exit(value[0] == 3 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
