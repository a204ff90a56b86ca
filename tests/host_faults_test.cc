// What goes wrong between hosts: processes that are killed, links that go down, hosts that vanish, ranks that
// do not come. Never a hang, never a wrong sum: an error in time that names rank and host, and other
// communicators are as they were.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstring>

#include "src/calls.h"
#include "src/engine.h"
#include "tests/error_message.h"
#include "tests/slow_wire.h"
#include "tests/test_hosts.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Seat seat_of(const Communicator& comm) { return {comm.rank(), comm.size()}; }

Call sum_call(const Communicator& comm, std::vector<float>& data) {
  return all_reduce_call(seat_of(comm), data.data(), data.data(), data.size(), DataType::f32, {});
}

void expect_sum_of_ones(Communicator& comm, std::size_t count = 1000) {
  std::vector<float> data(count, 1);
  comm.run(sum_call(comm, data));
  EXPECT_EQ(data, std::vector<float>(count, static_cast<float>(comm.size())));
}

// Each rank's progress, which the test that forked it sees.
struct Progress {
  std::atomic<int> calls;
  std::atomic<bool> go_on;
};

class HostFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TestHosts::obstacle().empty()) GTEST_SKIP() << TestHosts::obstacle();
    void* memory = ::mmap(nullptr, sizeof(Progress) * most_ranks, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    progress_ = static_cast<Progress*>(memory);
  }

  void TearDown() override {
    for (const pid_t child : children_) {
      if (child <= 0) continue;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    if (progress_ != nullptr) ::munmap(progress_, sizeof(Progress) * most_ranks);
  }

  // Starts `body` as every rank.
  void start(const TestHosts& hosts, const Seating& seating, std::chrono::milliseconds timeout,
             const std::function<void(Communicator&, Progress&)>& body) {
    std::fflush(nullptr);
    for (std::size_t rank = 0; rank < seating.size(); ++rank) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        try {
          // The start may take its time; the calls have so much.
          const auto comm = join_on_hosts(hosts, seating, static_cast<int>(rank), test_options());
          comm->set_timeout(timeout);
          body(*comm, progress_[rank]);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
        std::fflush(nullptr);
        ::_exit(::testing::Test::HasFailure() ? child_failed : child_ok);
      }
      children_.push_back(child);
    }
  }

  void wait_for_calls(int calls) const {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) wait_for_calls_of(rank, calls);
  }

  void wait_for_calls_of(std::size_t rank, int calls) const {
    const Deadline deadline = Deadline::after(20s);
    while (progress_[rank].calls < calls && !deadline.passed()) std::this_thread::sleep_for(1ms);
    ASSERT_FALSE(deadline.passed()) << "rank " << rank << " does not come to call " << calls;
  }

  void go_on_with(int rank) const { ::kill(children_[static_cast<std::size_t>(rank)], SIGCONT); }

  void let_go_on() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) progress_[rank].go_on = true;
  }

  void kill_rank(int rank) {
    pid_t& child = children_[static_cast<std::size_t>(rank)];
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = -1;
  }

  void expect_well(int rank) {
    pid_t& child = children_[static_cast<std::size_t>(rank)];
    if (child <= 0) return;
    int status = 0;
    ::waitpid(child, &status, 0);
    child = -1;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == child_ok)
        << "rank " << rank << (WIFSIGNALED(status) ? " was ended by a signal" : " failed (see above)");
  }
  // Broadcasts along a tree from rank 0; rank 1 has none below it, rank 2 has rank 3.
  void expect_a_killed_rank_of_a_tree_is_named(int victim);
  void expect_all_well() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) expect_well(static_cast<int>(rank));
  }

 private:
  static constexpr std::size_t most_ranks = 16;
  Progress* progress_ = nullptr;
  std::vector<pid_t> children_;
};

// Calls until something goes wrong; what was wrong, and how long after the last good call.
struct Failed {
  std::string text;
  ErrorKind kind;
  std::chrono::duration<double> after;
};

Failed call_until_failure(Communicator& comm, Progress& progress, std::size_t count) {
  auto last = Clock::now();
  try {
    while (true) {
      last = Clock::now();
      expect_sum_of_ones(comm, count);
      ++progress.calls;
    }
  } catch (const Error& error) {
    return {error.what(), error.kind(), Clock::now() - last};
  }
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in \"" << text << "\"";
}

// ---- processes ----

TEST_F(HostFaults, AKilledHostIsNamedAtOnceAndOtherCommunicatorsGoOn) {
  const TestHosts hosts(3);
  start(hosts, {0, 0, 1, 1, 2}, 20s, [](Communicator& comm, Progress& progress) {
    const auto survivors =
        comm.split(comm.hosts().host(comm.rank()) == 1 ? -1 : 0, comm.rank(), test_options());
    const Failed failed = call_until_failure(comm, progress, 100'000);
    expect_parts(failed.text, {"rank ", "(10.91.0.2)"});
    EXPECT_EQ(failed.kind, ErrorKind::remote);
    EXPECT_LT(failed.after.count(), 10);
    EXPECT_EQ(error_message([&] { comm.run(barrier_call()); }).find("has failed before") != std::string::npos,
              true);
    expect_sum_of_ones(*survivors, 50'000);
  });
  wait_for_calls(5);
  kill_rank(2);
  kill_rank(3);
  expect_all_well();
}

TEST_F(HostFaults, OneKilledRankOfAHostIsKnownOnAllHosts) {
  const TestHosts hosts(2);
  start(hosts, {0, 0, 1, 1}, 20s, [](Communicator& comm, Progress& progress) {
    const Failed failed = call_until_failure(comm, progress, 10'000);
    expect_parts(failed.text, {"rank 3"});
    EXPECT_LT(failed.after.count(), 10);
  });
  wait_for_calls(5);
  kill_rank(3);
  expect_all_well();
}

void HostFaults::expect_a_killed_rank_of_a_tree_is_named(int victim) {
  const TestHosts hosts(4);
  start(hosts, {0, 1, 2, 3}, 20s, [victim](Communicator& comm, Progress& progress) {
    std::vector<float> data(2'000);
    auto last = Clock::now();
    const std::string text = error_message([&] {
      while (true) {
        last = Clock::now();
        comm.run(broadcast_call(seat_of(comm), data.data(), data.data(), data.size(), DataType::f32, 0));
        // Else the root would run ahead of all.
        if (++progress.calls % 16 == 0) comm.run(barrier_call());
      }
    });
    EXPECT_LT(Clock::now() - last, 10s);
    EXPECT_EQ(comm.ledger().rows().count({"", CallKind::broadcast, Algorithm::tree}), 1u);
    expect_parts(text, {fmt::format("rank {}", victim).c_str()});
  });
  wait_for_calls(5);
  kill_rank(victim);
  expect_all_well();
}

TEST_F(HostFaults, AKilledRankInTheMiddleOfATreeIsNamed) { expect_a_killed_rank_of_a_tree_is_named(2); }

TEST_F(HostFaults, AKilledRankAtTheEndOfATreeIsNamed) { expect_a_killed_rank_of_a_tree_is_named(3); }

TEST_F(HostFaults, ARankThatAbortsTellsOtherHosts) {
  run_on_hosts(TestHosts::shared(2), {0, 1, 1}, [](Communicator& comm) {
    expect_sum_of_ones(comm);
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(100ms);
      return comm.abort();
    }
    std::vector<float> data(1000, 1);
    expect_parts(error_message([&] { comm.run(sum_call(comm, data)); }), {"rank 0 aborted the communicator"});
  });
}

TEST_F(HostFaults, ARankThatLeavesTooEarlyIsNamed) {
  run_on_hosts(TestHosts::shared(2), {0, 1}, [](Communicator& comm) {
    expect_sum_of_ones(comm);
    if (comm.rank() == 0) return;
    std::vector<float> data(1000, 1);
    expect_parts(error_message([&] { comm.run(sum_call(comm, data)); }),
                 {"rank 0 on host", "(10.91.0.1)", "has destroyed the communicator"});
  });
}

TEST_F(HostFaults, ARankThatMakesNoCallIsNamedAtTheDeadline) {
  run_on_hosts(
      TestHosts::shared(3), {0, 1, 2, 2},
      [](Communicator& comm) {
        expect_sum_of_ones(comm);
        comm.set_timeout(1s);
        if (comm.rank() == 2) return std::this_thread::sleep_for(3500ms);
        const auto start = Clock::now();
        std::vector<float> data(1000, 1);
        expect_parts(
            error_message([&] { comm.run(sum_call(comm, data)); }),
            {"timed out after 1 s; rank 2 on host", "(10.91.0.3) has not made this call (number 2)"});
        EXPECT_LT(Clock::now() - start, 2500ms);
      },
      test_options());
}

TEST_F(HostFaults, ARankThatStandsStillIsNamedAtTheDeadline) {
  const TestHosts& hosts = TestHosts::shared(2);
  start(hosts, {0, 0, 1}, 1s, [](Communicator& comm, Progress& progress) {
    if (comm.rank() == 2) ::raise(SIGSTOP);
    const Failed failed = call_until_failure(comm, progress, 1000);
    expect_parts(failed.text, {"timed out after 1 s", "no word from rank 2 on host", "(10.91.0.2)"});
    EXPECT_LT(failed.after.count(), 3);
  });
  expect_well(0);
  expect_well(1);
}

// A message of which a part has come can be neither called off nor waited for. Its memory is the caller's
// again all the same.
TEST_F(HostFaults, NothingIsWrittenAfterACallThatFailedInTheMiddleOfAMessage) {
  constexpr std::size_t bytes = 32 << 20;
  constexpr std::byte untouched{0x5a}, sent{0x11};
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> target(static_cast<std::byte*>(memory), bytes);
  std::fill(target.begin(), target.end(), untouched);
  const auto begun = [&] { return *static_cast<volatile std::byte*>(memory) == sent; };
  start(TestHosts::shared(2), {0, 1, 1}, 1s, [&](Communicator& comm, Progress& progress) {
    const auto others = comm.split(comm.rank() == 1 ? -1 : 0, comm.rank(), test_options());
    if (comm.rank() == 1) {
      std::vector<std::byte> source(bytes, sent);
      const auto call = comm.start(send_call(seat_of(comm), source.data(), bytes, DataType::u8, 0));
      while (!begun()) comm.progress();
      ::raise(SIGSTOP);
      error_message([&] { wait_for(*call); });
      return;
    }
    if (comm.rank() == 0) {
      const std::string text = error_message(
          [&] { comm.run(receive_call(seat_of(comm), target.data(), bytes, DataType::u8, 1)); });
      expect_parts(text, {"timed out after 1 s", "no word from rank 1 on host", "(10.91.0.2)"});
      EXPECT_EQ(target.back(), untouched) << "the message was there before its sender stopped";
      std::fill(target.begin(), target.end(), untouched);
    }
    ++progress.calls;
    while (!progress.go_on) std::this_thread::sleep_for(1ms);
    for (int call = 0; call < 20; ++call) expect_sum_of_ones(*others, 20'000);
    std::this_thread::sleep_for(300ms);
    if (comm.rank() == 0) {
      EXPECT_EQ(std::count(target.begin(), target.end(), untouched), static_cast<std::ptrdiff_t>(bytes));
    }
  });
  wait_for_calls_of(0, 1);
  go_on_with(1);
  let_go_on();
  expect_all_well();
  ::munmap(memory, bytes);
}

// ---- links ----

TEST_F(HostFaults, AfterALinkWasDownForAWhileTrafficGoesOn) {
  const TestHosts hosts(3);
  start(hosts, {0, 1, 2}, 30s, [](Communicator& comm, Progress& progress) {
    // All make the same number of calls: as many as the one that is told to stop.
    for (bool more = true; more; ++progress.calls) {
      expect_sum_of_ones(comm, 30'000);
      std::vector<int> stop{progress.go_on ? 1 : 0};
      comm.run(
          all_reduce_call(seat_of(comm), stop.data(), stop.data(), 1, DataType::i32, {ReduceOp::max, 0}));
      more = stop[0] == 0;
    }
  });
  wait_for_calls(5);
  hosts.unplug(1);
  std::this_thread::sleep_for(700ms);
  hosts.plug_in(1);
  std::this_thread::sleep_for(300ms);
  let_go_on();
  expect_all_well();
}

TEST_F(HostFaults, LostPacketsCostTimeAndNothingElse) {
  const TestHosts hosts(2);
  for (const int host : {0, 1})
    if (!hosts.lose_packets(host, 2)) GTEST_SKIP() << "nft cannot drop packets here";
  run_on_hosts(hosts, {0, 0, 1, 1}, [](Communicator& comm) {
    for (int call = 0; call < 20; ++call) expect_sum_of_ones(comm, 20'000);
  });
}

TEST_F(HostFaults, ASlowWireThatIsCutForAWhileCostsTimeAndNothingElse) {
  if (!SlowWire::obstacle().empty()) GTEST_SKIP() << SlowWire::obstacle();
  constexpr auto one_way = 50ms;
  const TestHosts hosts(2);
  SlowWire wire(hosts, 2, one_way);
  constexpr int calls = 10, calls_before_the_cut = 4;
  start(hosts, {0, 0, 1, 1}, 30s, [&](Communicator& comm, Progress& progress) {
    for (int call = 0; call < calls; ++call, ++progress.calls) {
      const auto before = Clock::now();
      expect_sum_of_ones(comm, 20'000);
      EXPECT_GE(Clock::now() - before, one_way);  // nobody has the sum before the other host's data have come
    }
  });
  wait_for_calls(calls_before_the_cut);
  wire.cut();
  std::this_thread::sleep_for(300ms);
  wire.mend();
  expect_all_well();
}

TEST_F(HostFaults, ASlowWireThatStaysCutIsAnErrorByTheDeadline) {
  if (!SlowWire::obstacle().empty()) GTEST_SKIP() << SlowWire::obstacle();
  const TestHosts hosts(2);
  SlowWire wire(hosts, 2, 20ms);
  start(hosts, {0, 1, 1}, 2s, [](Communicator& comm, Progress& progress) {
    const Failed failed = call_until_failure(comm, progress, 20'000);
    EXPECT_EQ(failed.kind, ErrorKind::timeout) << failed.text;
    EXPECT_LT(failed.after.count(), 6);
    if (comm.rank() == 0)
      expect_parts(failed.text, {"rank 1 on host", "rank 2 on host", "(10.91.0.2)"});
    else
      expect_parts(failed.text, {"rank 0 on host", "(10.91.0.1)"});
  });
  wait_for_calls(3);
  wire.cut();
  expect_all_well();
}

TEST_F(HostFaults, ALinkThatStaysDownIsAnErrorByTheDeadline) {
  const TestHosts hosts(3);
  start(hosts, {0, 0, 1, 2}, 2s, [](Communicator& comm, Progress& progress) {
    const auto others = comm.split(comm.rank() == 2 ? -1 : 0, comm.rank(), test_options());
    const Failed failed = call_until_failure(comm, progress, 100'000);
    EXPECT_LT(failed.after.count(), 6);
    if (comm.rank() != 2)
      expect_parts(failed.text, {"rank 2 on host", "(10.91.0.2)"});
    else
      expect_parts(failed.text,
                   {"rank 0 on host", "rank 1 on host", "(10.91.0.1)", "rank 3 on host", "(10.91.0.3)"});
    if (others) expect_sum_of_ones(*others, 50'000);
  });
  wait_for_calls(5);
  hosts.unplug(1);
  expect_all_well();
}

TEST_F(HostFaults, AHostThatVanishesIsAnErrorByTheDeadline) {
  const TestHosts hosts(3);
  start(hosts, {0, 1, 2, 2}, 2s, [](Communicator& comm, Progress& progress) {
    const auto others = comm.split(comm.rank() == 1 ? -1 : 0, comm.rank(), test_options());
    const Failed failed = call_until_failure(comm, progress, 100'000);
    EXPECT_LT(failed.after.count(), 6);
    expect_parts(failed.text, {"rank 1 on host", "(10.91.0.2)"});
    expect_sum_of_ones(*others, 50'000);
  });
  wait_for_calls(5);
  hosts.remove(1);
  kill_rank(1);
  expect_all_well();
}

}  // namespace
}  // namespace rondo::test
