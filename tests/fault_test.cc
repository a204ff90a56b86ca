// What goes wrong between ranks: calls that do not match, ranks that die, deadlines, aborts, forks, signals,
// exhausted descriptors. Ranks are processes, since processes die.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <random>

#include "include/rondo/rondo.h"
#include "src/calls.h"
#include "src/engine.h"
#include "src/group.h"
#include "src/stream.h"
#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CommunicatorOptions options_with(std::chrono::milliseconds timeout) {
  CommunicatorOptions options = test_options();
  options.settings.timeout = timeout;
  return options;
}

Seat seat_of(const Communicator& comm) { return {comm.rank(), comm.size()}; }

Call sum_call(const Communicator& comm, std::vector<float>& data, ReduceOp op = ReduceOp::max) {
  return all_reduce_call(seat_of(comm), data.data(), data.data(), data.size(), DataType::f32, {op, 0});
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in \"" << text << "\"";
}

ErrorKind kind_of_failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

// Forks a rank without waiting for it.
pid_t fork_rank(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? child_failed : child_ok);
}

void expect_well(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == child_ok);
}

// ---- calls that do not match ----

// Rank 0 makes one call, the others another. Each rank is told who differs in what; then all is well again.
void expect_mismatch(const std::function<Call(Seat, void*)>& of_rank_0,
                     const std::function<Call(Seat, void*)>& of_others, const std::string& field,
                     const std::string& first, const std::string& second) {
  run_ranks(4, [&](Communicator& comm) {
    std::vector<double> memory(8192);
    const std::string text = error_message(
        [&] { comm.run((comm.rank() == 0 ? of_rank_0 : of_others)(seat_of(comm), memory.data())); });
    expect_part(text, fmt::format("rank {} of 4", comm.rank()));
    expect_part(text, field + " differs between ranks: rank 0: " + first);
    expect_part(text, "; ranks 1, 2, 3: " + second);
    std::vector<float> data(100, 1);
    comm.run(sum_call(comm, data, ReduceOp::sum));
    EXPECT_EQ(data, std::vector<float>(100, 4));
  });
}

TEST(Mismatch, OfCounts) {
  expect_mismatch([](Seat seat, void* at) { return all_reduce_call(seat, at, at, 4096, DataType::f32, {}); },
                  [](Seat seat, void* at) { return all_reduce_call(seat, at, at, 4094, DataType::f32, {}); },
                  "count", "4096", "4094");
}
TEST(Mismatch, OfTypes) {
  expect_mismatch([](Seat seat, void* at) { return all_reduce_call(seat, at, at, 64, DataType::f32, {}); },
                  [](Seat seat, void* at) { return all_reduce_call(seat, at, at, 64, DataType::i32, {}); },
                  "type", "f32", "i32");
}
TEST(Mismatch, OfOperators) {
  expect_mismatch(
      [](Seat seat, void* at) {
        return all_reduce_call(seat, at, at, 64, DataType::f32, {ReduceOp::max, 0});
      },
      [](Seat seat, void* at) { return all_reduce_call(seat, at, at, 64, DataType::f32, {}); }, "operator",
      "max", "sum");
}
TEST(Mismatch, OfRoots) {
  expect_mismatch([](Seat seat, void* at) { return broadcast_call(seat, at, at, 64, DataType::f32, 3); },
                  [](Seat seat, void* at) { return broadcast_call(seat, at, at, 64, DataType::f32, 2); },
                  "root", "3", "2");
}
TEST(Mismatch, OfCalls) {
  expect_mismatch([](Seat seat, void* at) { return broadcast_call(seat, at, at, 64, DataType::f32, 0); },
                  [](Seat seat, void* at) { return all_reduce_call(seat, at, at, 64, DataType::f32, {}); },
                  "call", "broadcast", "all-reduce");
}
TEST(Mismatch, OfACallAndABarrier) {
  expect_mismatch([](Seat, void*) { return barrier_call(); },
                  [](Seat seat, void* at) { return all_reduce_call(seat, at, at, 64, DataType::u8, {}); },
                  "call", "barrier", "all-reduce");
}
TEST(Mismatch, OfGroups) {
  const auto two = [](std::size_t a, std::size_t b) {
    return [a, b](Seat seat, void* at) {
      auto* data = static_cast<float*>(at);
      Call call = all_reduce_call(seat, data, data, a, DataType::f32, {});
      join(call, all_reduce_call(seat, data + 64, data + 64, b, DataType::f32, {}));
      return call;
    };
  };
  expect_mismatch([](Seat seat, void* at) { return all_reduce_call(seat, at, at, 30, DataType::f32, {}); },
                  two(10, 20), "number of calls in the group", "1", "2");
  expect_mismatch(two(20, 10), two(10, 20), "counts of the ranks or of the group's calls", "#", "#");
}

TEST(Mismatch, OfAMessageNamesBothSides) {
  run_ranks(2, [](Communicator& comm) {
    std::vector<float> data(100);
    const std::string text = error_message([&] {
      comm.run(comm.rank() == 0 ? send_call(seat_of(comm), data.data(), 100, DataType::f32, 1)
                                : receive_call(seat_of(comm), data.data(), 99, DataType::f32, 0));
      comm.run(barrier_call());  // the sender learns of it here
    });
    expect_part(text, "message from rank 0: sent 100 x f32, received as 99 x f32");
  });
}

// ---- deaths ----

TEST(Death, OfOneRankIsToldByNameToAllWithinSeconds) {
  const UniqueId id = UniqueId::make();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 4; ++rank)
    children.push_back(fork_rank([&] {
      const auto comm = Communicator::create(id.meeting_place(), rank, 4, test_options());
      std::vector<float> data(1 << 24, 1);  // 64 MiB
      Clock::time_point last;
      const std::string text = error_message([&] {
        while (true) {
          last = Clock::now();
          comm->run(sum_call(*comm, data));
        }
      });
      expect_part(text, "rank 2 (process");
      expect_part(text, "has died");
      EXPECT_LT(seconds_since(last), 5);
      expect_part(error_message([&] { comm->run(barrier_call()); }), "rank 2");
    }));
  std::this_thread::sleep_for(1500ms);
  ::kill(children[2], SIGKILL);
  ::waitpid(children[2], nullptr, 0);
  for (int rank : {0, 1, 3}) expect_well(children[static_cast<std::size_t>(rank)]);
}

TEST(Death, AfterItsPartWasDoneHurtsNobody) {
  run_ranks(3, [](Communicator& comm) {
    std::vector<float> data(10, 1);
    // Rank 1 sends and ends at once; rank 2 makes rank 0 wait long enough to look for deaths.
    if (comm.rank() == 1) return comm.run(send_call(seat_of(comm), data.data(), 10, DataType::f32, 0));
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(300ms);
      return comm.run(send_call(seat_of(comm), data.data(), 10, DataType::f32, 0));
    }
    Call both = receive_call(seat_of(comm), data.data(), 10, DataType::f32, 1);
    std::vector<float> other(10);
    join(both, receive_call(seat_of(comm), other.data(), 10, DataType::f32, 2));
    comm.run(std::move(both));
    EXPECT_EQ(other, std::vector<float>(10, 1));
  });
}

TEST(Death, OfTheRoot) {
  run_ranks(3, [](Communicator& comm) {
    if (comm.rank() == 1) ::_exit(child_ok);
    std::vector<float> data(10, 1);
    const std::string text = error_message(
        [&] { comm.run(broadcast_call(seat_of(comm), data.data(), data.data(), 10, DataType::f32, 1)); });
    expect_part(text, "rank 1 (process");
  });
}

TEST(Death, OfTheHandleIsToldLikewise) {
  run_ranks(
      3,
      [](Communicator& comm) {
        if (comm.rank() == 2) return;  // its communicator goes, the process stays
        const auto start = Clock::now();
        expect_part(error_message([&] { comm.run(barrier_call()); }),
                    "rank 2 has destroyed the communicator");
        EXPECT_LT(seconds_since(start), 3);
      },
      test_options(), RanksAre::threads);
}

// ---- deadlines ----

TEST(Timeouts, OfOneCallAndSetLaterAreKept) {
  run_ranks(
      2,
      [](Communicator& comm) {
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(1500ms);
          EXPECT_EQ(kind_of_failure([&] { comm.run(barrier_call()); }), ErrorKind::timeout);
          return;
        }
        comm.set_timeout(300ms);
        const auto start = Clock::now();
        const std::string text = error_message([&] { comm.run(barrier_call()); });
        expect_part(text, "timed out after 0.3 s");
        expect_part(text, "rank 1 has not made this call (number 1)");
        EXPECT_GT(seconds_since(start), 0.29);
        EXPECT_LT(seconds_since(start), 0.6);
      },
      options_with(60s));
  run_ranks(
      2,
      [](Communicator& comm) {
        if (comm.rank() == 1) return std::this_thread::sleep_for(2500ms);
        comm.set_timeout(1s);
        const auto start = Clock::now();
        EXPECT_EQ(kind_of_failure([&] { comm.run(barrier_call()); }), ErrorKind::timeout);
        EXPECT_LT(seconds_since(start), 2);
      },
      options_with(60s));
}

TEST(Timeouts, ThatAreNotReachedDoNoHarm) {
  run_ranks(2, [](Communicator& comm) {
    comm.set_timeout(0ms);  // never
    if (comm.rank() == 1) std::this_thread::sleep_for(200ms);
    comm.run(barrier_call());
    comm.set_timeout(5s);
    if (comm.rank() == 0) std::this_thread::sleep_for(200ms);
    comm.run(barrier_call());
  });
}

// ---- aborts ----

TEST(Abort, ReturnsAtOnceInWhateverOrder) {
  const UniqueId id_a = UniqueId::make(), id_b = UniqueId::make();
  run_processes(3, [&](int rank) {
    const auto a = Communicator::create(id_a.meeting_place(), rank, 3, test_options());
    const auto b = Communicator::create(id_b.meeting_place(), rank, 3, test_options());
    if (rank == 0) ::_exit(child_ok);
    std::vector<float> data_a(1000), data_b(1000);
    Stream stream_a, stream_b;
    stream_a.submit(*a, sum_call(*a, data_a));
    stream_b.submit(*b, sum_call(*b, data_b));
    const auto start = Clock::now();
    for (const auto& comm : rank == 1 ? std::vector{a, b} : std::vector{b, a}) comm->abort();
    EXPECT_LT(seconds_since(start), 1);
    EXPECT_THROW(stream_a.synchronize(), Error);
    EXPECT_THROW(stream_b.synchronize(), Error);
    EXPECT_THROW(a->run(barrier_call()), Error);
  });
}

TEST(Abort, EndsACallThatAnotherThreadWaitsFor) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(700ms);
      EXPECT_TRUE(comm.error().has_value()) << "told without a call";
      return;
    }
    std::jthread aborter([&] {
      std::this_thread::sleep_for(200ms);
      comm.abort();
    });
    const auto start = Clock::now();
    EXPECT_EQ(kind_of_failure([&] { comm.run(barrier_call()); }), ErrorKind::aborted);
    EXPECT_LT(seconds_since(start), 1);
  });
}

// ---- the start ----

void limit(int resource, rlim_t most) {
  const rlimit value{most, most};
  ASSERT_EQ(::setrlimit(static_cast<__rlimit_resource>(resource), &value), 0);
}

// One rank of four is short of something; all are told, and who it was.
void expect_failed_start(int poor_rank, const std::function<void()>& impoverish) {
  const UniqueId id = UniqueId::make();
  run_processes(4, [&](int rank) {
    const auto start = Clock::now();
    const std::string text = error_message([&] {
      // Read before the shortage: it is the library's memory that is to be short, not the test's.
      const CommunicatorOptions options = options_with(20s);
      if (rank == poor_rank) impoverish();
      Communicator::create(id.meeting_place(), rank, 4, options);
    });
    expect_part(text, fmt::format("rank {}", poor_rank));
    EXPECT_LT(seconds_since(start), 10);
  });
}

std::size_t address_space_in_use() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

TEST(Start, ShortOfFileSizeOnRankZeroFailsOnAll) {
  expect_failed_start(0, [] { limit(RLIMIT_FSIZE, 1 << 16); });
}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;
#else
constexpr bool has_shadow_memory = false;
#endif

TEST(Start, ShortOfAddressSpaceOnOneRankFailsOnAll) {
  if (has_shadow_memory) GTEST_SKIP() << "the sanitizer itself needs the address space";
  expect_failed_start(1, [] { limit(RLIMIT_AS, address_space_in_use() + (1 << 20)); });
}

TEST(Start, ShortOfDescriptorsOnOneRankFailsOnAll) {
  if (has_shadow_memory) GTEST_SKIP() << "the sanitizer itself needs descriptors";
  // Room for the meeting's socket, and not for what comes after.
  for (const int spare : {1, 2})
    expect_failed_start(2, [=] {
      const Fd next(::dup(0));
      limit(RLIMIT_NOFILE, static_cast<rlim_t>(next.get() + spare));
    });
}

TEST(Start, NamesARankThatDoesNotCome) {
  const UniqueId id = UniqueId::make();
  run_processes(3, [&](int rank) {
    expect_part(
        error_message([&] { Communicator::create(id.meeting_place(), rank, 4, options_with(700ms)); }),
        "rank 3 did not come");
  });
}

// ---- many communicators ----

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::size_t mappings() {
  std::ifstream file("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

TEST(Many, AThousandOneAfterAnotherLeaveNothingOpen) {
  run_ranks(2, [](Communicator& world) {
    const auto round = [&] {
      const auto comm = world.split(0, world.rank(), test_options());
      std::vector<float> data(10, 1);
      comm->run(sum_call(*comm, data, ReduceOp::sum));
      EXPECT_EQ(data[0], 2);
    };
    for (int warm = 0; warm < 3; ++warm) round();
    const std::size_t descriptors = open_descriptors(), maps = mappings();
    limit(RLIMIT_NOFILE, static_cast<rlim_t>(descriptors + 12));
    for (int i = 0; i < 1000; ++i) round();
    EXPECT_EQ(open_descriptors(), descriptors);
    EXPECT_LT(mappings(), maps + 100);  // an allocator may take some
  });
}

TEST(Many, ThreeHundredLiveAtOnceUnderALowLimit) {
  run_ranks(2, [](Communicator& world) {
    limit(RLIMIT_NOFILE, static_cast<rlim_t>(open_descriptors() + 12));
    std::vector<std::shared_ptr<Communicator>> all;
    for (int i = 0; i < 300; ++i) all.push_back(world.split(0, world.rank(), test_options()));
    for (const auto& comm : all) {
      std::vector<float> data(10, 1);
      comm->run(sum_call(*comm, data, ReduceOp::sum));
      ASSERT_EQ(data[9], 2);
    }
  });
}

// ---- split ----

TEST(Split, OrdersByKeyAndLeavesOutWhoHasNoColour) {
  run_ranks(4, [](Communicator& comm) {
    const int keys[] = {9, 4, 6, 2}, new_ranks[] = {3, 1, 2, 0};
    const auto child = comm.split(7, keys[comm.rank()], test_options());
    EXPECT_EQ(child->rank(), new_ranks[comm.rank()]);
    int value = comm.rank();
    comm.run(barrier_call());
    child->run(broadcast_call(seat_of(*child), &value, &value, 1, DataType::i32, 0));
    EXPECT_EQ(value, 3);
    const auto three = comm.split(comm.rank() == 1 ? -1 : 0, 0, test_options());
    EXPECT_EQ(three == nullptr, comm.rank() == 1);
    if (three) {
      EXPECT_EQ(three->size(), 3);
      three->run(barrier_call());
    }
    EXPECT_EQ(comm.split(-5, 0, test_options()), nullptr);
    const auto pairs = comm.split(comm.rank() % 2, -comm.rank(), test_options());
    EXPECT_EQ(pairs->size(), 2);
    EXPECT_EQ(pairs->rank(), comm.rank() < 2 ? 1 : 0);
    pairs->run(barrier_call());
  });
}

// ---- several communicators, threads and orders ----

TEST(Order, TwoThreadsWithACommunicatorEach) {
  const UniqueId ids[] = {UniqueId::make(), UniqueId::make()};
  run_processes(2, [&](int rank) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        const auto comm = Communicator::create(ids[t].meeting_place(), rank, 2, test_options());
        std::mt19937 random(static_cast<unsigned>(rank * 2 + t));
        for (int op = 0; op < 2000; ++op) {
          if (random() % 32 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
          int value = op + rank, sum = 0;
          comm->run(all_reduce_call({rank, 2}, &value, &sum, 1, DataType::i32, {}));
          ASSERT_EQ(sum, 2 * op + 1);
        }
      });
  });
}

// Both ranks name the communicators in opposite order.
template <typename Use>
void with_two_in_opposite_order(std::chrono::milliseconds timeout, Use use) {
  const UniqueId id_a = UniqueId::make(), id_b = UniqueId::make();
  run_processes(2, [&](int rank) {
    const auto a = Communicator::create(id_a.meeting_place(), rank, 2, options_with(timeout));
    const auto b = Communicator::create(id_b.meeting_place(), rank, 2, options_with(timeout));
    use(rank == 0 ? a : b, rank == 0 ? b : a);
  });
}

TEST(Order, OppositeInAGroupCompletes) {
  with_two_in_opposite_order(20s, [](const auto& first, const auto& second) {
    for (int round = 0; round < 100; ++round) {
      std::vector<float> x(50'000, 1), y(50'000, 1);
      group_start();
      submit(first, sum_call(*first, x, ReduceOp::sum), {});
      submit(second, sum_call(*second, y, ReduceOp::sum), {});
      group_end();
      EXPECT_EQ(x[49'999] + y[49'999], 4);
    }
  });
}

TEST(Order, OppositeOnStreamsCompletes) {
  with_two_in_opposite_order(20s, [](const auto& first, const auto& second) {
    std::vector<float> x(50'000, 1), y(50'000, 1);
    Stream stream_x, stream_y;
    for (int round = 0; round < 100; ++round) {
      stream_x.submit(*first, sum_call(*first, x));
      stream_y.submit(*second, sum_call(*second, y));
    }
    stream_x.synchronize();
    stream_y.synchronize();
    EXPECT_EQ(x[0] + y[0], 2);
  });
}

TEST(Order, OppositeAndBlockingEndsByTheDeadline) {
  with_two_in_opposite_order(500ms, [](const auto& first, const auto& second) {
    std::vector<float> x(10, 1);
    const auto start = Clock::now();
    EXPECT_EQ(kind_of_failure([&] {
                first->run(sum_call(*first, x));
                second->run(sum_call(*second, x));
              }),
              ErrorKind::timeout);
    EXPECT_LT(seconds_since(start), 2);
  });
}

// ---- messages ----

TEST(Messages, BothSendingFirstMeetByTheDeadlineOrInAGroup) {
  run_ranks(
      2,
      [](Communicator& comm) {
        std::vector<float> send(1 << 18, static_cast<float>(comm.rank())), receive(1 << 18);
        const int peer = 1 - comm.rank();
        const auto shared = comm.shared_from_this();
        group_start();
        submit(shared, send_call(seat_of(comm), send.data(), send.size(), DataType::f32, peer), {});
        submit(shared, receive_call(seat_of(comm), receive.data(), receive.size(), DataType::f32, peer), {});
        group_end();
        EXPECT_EQ(receive, std::vector<float>(1 << 18, static_cast<float>(peer)));
        EXPECT_EQ(kind_of_failure([&] {
                    comm.run(send_call(seat_of(comm), send.data(), send.size(), DataType::f32, peer));
                  }),
                  ErrorKind::timeout);
      },
      options_with(700ms));
}

TEST(Messages, ArriveInTheOrderSent) {
  run_ranks(2, [](Communicator& comm) {
    int values[] = {11, 22};
    for (int& value : values) {
      int got = 0;
      comm.run(comm.rank() == 0 ? send_call(seat_of(comm), &value, 1, DataType::i32, 1)
                                : receive_call(seat_of(comm), &got, 1, DataType::i32, 0));
      if (comm.rank() == 1) {
        EXPECT_EQ(got, value);
      }
    }
    int first = 0, second = 0;
    Call call = comm.rank() == 0 ? send_call(seat_of(comm), &values[0], 1, DataType::i32, 1)
                                 : receive_call(seat_of(comm), &first, 1, DataType::i32, 0);
    join(call, comm.rank() == 0 ? send_call(seat_of(comm), &values[1], 1, DataType::i32, 1)
                                : receive_call(seat_of(comm), &second, 1, DataType::i32, 0));
    comm.run(std::move(call));
    if (comm.rank() == 1) {
      EXPECT_TRUE(first == 11 && second == 22);
    }
  });
}

TEST(Messages, ToOneselfNeedBothHalves) {
  run_ranks(2, [](Communicator& comm) {
    const int sent[] = {1, 2, 3};
    int got[3] = {};
    Call call = receive_call(seat_of(comm), got, 3, DataType::i32, comm.rank());
    join(call, send_call(seat_of(comm), sent, 3, DataType::i32, comm.rank()));
    comm.run(std::move(call));
    EXPECT_EQ(got[2], 3);
    expect_part(
        error_message([&] { comm.run(send_call(seat_of(comm), sent, 3, DataType::i32, comm.rank())); }),
        "without the other half");
    comm.run(barrier_call());  // nothing was broken
  });
}

// ---- forks ----

TEST(Fork, ChildrenDisturbNeitherParentNorPeers) {
  run_ranks(2, [](Communicator& comm) {
    std::vector<float> data(100, 1);
    comm.run(sum_call(comm, data));
    if (comm.rank() == 0) {
      Stream stream;  // the progress thread does not come along
      stream.submit(comm, sum_call(comm, data));
      for (int i = 0; i < 4; ++i) {
        const pid_t child = fork_rank([&, i] {
          if (i == 0) {
            EXPECT_EQ(kind_of_failure([&] { comm.run(barrier_call()); }), ErrorKind::invalid_usage);
            EXPECT_EQ(kind_of_failure([&] { comm.abort(); }), ErrorKind::invalid_usage);
            EXPECT_EQ(kind_of_failure([&] { stream.synchronize(); }), ErrorKind::invalid_usage);
          }
          if (i == 1) {
            // A communicator of the child's own works, streams too.
            const auto own = Communicator::create(UniqueId::make().meeting_place(), 0, 1, test_options());
            Stream its;
            its.submit(*own, sum_call(*own, data));
            its.synchronize();
          }
        });
        expect_well(child);
      }
      stream.synchronize();
    } else {
      std::this_thread::sleep_for(100ms);
      comm.run(sum_call(comm, data));
    }
    for (int i = 0; i < 100; ++i) comm.run(sum_call(comm, data));
  });
}

// ---- signals ----

std::atomic<long> alarms{0};

TEST(Signals, InterruptNothingAndNoHandlerIsChanged) {
  const UniqueId id = UniqueId::make();
  run_processes(3, [&](int rank) {
    struct sigaction action {};
    action.sa_handler = [](int) { alarms.fetch_add(1); };  // without SA_RESTART
    ::sigaction(SIGALRM, &action, nullptr);
    const auto handlers = [] {
      std::vector<void*> all;
      for (int number = 1; number < 32; ++number) {
        struct sigaction one {};
        ::sigaction(number, nullptr, &one);
        all.push_back(reinterpret_cast<void*>(one.sa_handler));
      }
      return all;
    };
    const auto before = handlers();
    const itimerval timer{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
    const auto comm = Communicator::create(id.meeting_place(), rank, 3, test_options());
    std::vector<float> data(20'000, 1);
    for (int op = 0; op < 3000; ++op) comm->run(sum_call(*comm, data));
    comm->split(0, 0, test_options())->run(barrier_call());
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    EXPECT_GT(alarms, 20);
    EXPECT_EQ(handlers(), before);
  });
}

// ---- more ranks than cores ----

TEST(Oversubscription, EightRanksGiveWayToOneAnother) {
  const auto start = Clock::now();
  run_ranks(8, [](Communicator& comm) {
    for (int op = 0; op < 2000; ++op) {
      comm.run(barrier_call());
      std::int64_t value = comm.rank(), sum = 0;
      comm.run(all_reduce_call(seat_of(comm), &value, &sum, 1, DataType::i64, {}));
      ASSERT_EQ(sum, 28);
    }
  });
  std::printf("8 ranks, 2000 barriers and 8-byte all-reduces: %.2f s\n", seconds_since(start));
  EXPECT_LT(seconds_since(start), 30);
}

// ---- handles of the C interface ----

TEST(Handles, OfDestroyedCommunicatorsAreFoundOut) {
  rondoUniqueId id;
  ASSERT_EQ(rondoGetUniqueId(&id), rondoSuccess);
  rondoComm_t comm = nullptr;
  ASSERT_EQ(rondoCommInitRank(&comm, 1, id, 0), rondoSuccess);
  EXPECT_EQ(rondoCommDestroy(comm), rondoSuccess);
  EXPECT_EQ(rondoCommDestroy(comm), rondoInvalidArgument);
  EXPECT_EQ(rondoCommAbort(comm), rondoInvalidArgument);
  EXPECT_EQ(rondoBarrier(comm, nullptr), rondoInvalidArgument);
  expect_part(rondoGetLastError(comm), "expected a communicator that lives");
}

TEST(Handles, MayBeDestroyedInOppositeOrderAndWhenAPeerIsDead) {
  rondoUniqueId ids[2];
  for (rondoUniqueId& id : ids) ASSERT_EQ(rondoGetUniqueId(&id), rondoSuccess);
  run_processes(2, [&](int rank) {
    rondoComm_t comms[2] = {};
    for (int c = 0; c < 2; ++c) ASSERT_EQ(rondoCommInitRank(&comms[c], 2, ids[c], rank), rondoSuccess);
    for (rondoComm_t comm : comms) EXPECT_EQ(rondoBarrier(comm, nullptr), rondoSuccess);
    if (rank == 1) ::_exit(child_ok);
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(rondoCommDestroy(comms[1]), rondoSuccess);
    EXPECT_EQ(rondoCommDestroy(comms[0]), rondoSuccess);
  });
  run_processes(2, [&](int rank) {
    rondoComm_t comms[2] = {};
    for (int c = 0; c < 2; ++c) ASSERT_EQ(rondoCommInitRank(&comms[c], 2, ids[c], rank), rondoSuccess);
    EXPECT_EQ(rondoCommDestroy(comms[rank]), rondoSuccess);
    EXPECT_EQ(rondoCommDestroy(comms[1 - rank]), rondoSuccess);
  });
}

TEST(Handles, OfAParentGiveAForkedChildAnError) {
  rondoComm_t comms[2];
  ASSERT_EQ(rondoCommInitAll(comms, 2, nullptr), rondoSuccess);
  expect_well(fork_rank([&] {
    EXPECT_EQ(rondoBarrier(comms[0], nullptr), rondoInvalidUsage);
    EXPECT_EQ(rondoCommDestroy(comms[0]), rondoInvalidUsage);
    EXPECT_EQ(rondoCommAbort(comms[1]), rondoInvalidUsage);
  }));
  rondoResult_t error = rondoInternalError;
  EXPECT_EQ(rondoCommGetAsyncError(comms[0], &error), rondoSuccess);
  EXPECT_EQ(error, rondoSuccess);
  for (rondoComm_t comm : comms) EXPECT_EQ(rondoCommDestroy(comm), rondoSuccess);
}

}  // namespace
}  // namespace rondo::test
