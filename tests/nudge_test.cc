// Ranks that stand on one core: a thread is moved and bound to nothing, and waits learn when spinning keeps
// the other away.
#include "src/nudge.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "src/calls.h"
#include "src/machine.h"
#include "src/patience.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

cpu_set_t cpus_of_this_thread() {
  cpu_set_t cpus;
  EXPECT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

void stand_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

// In a thread of its own, which begins on its first CPU and is bound to none.
template <typename Body>
void begin_on_the_first_cpu(const Body& body) {
  std::thread([&] {
    const cpu_set_t all = cpus_of_this_thread();
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    stand_on(first);
    ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
    body(all);
  }).join();
}

TEST(Nudge, MovesAThreadAndBindsItToNothing) {
  begin_on_the_first_cpu([](const cpu_set_t& all) {
    if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one CPU only";
    const int cpu = move_to_cpu_in_turn(1 + CPU_COUNT(&all));
    EXPECT_GE(cpu, 0);
    EXPECT_TRUE(CPU_ISSET(cpu, &all));
    const cpu_set_t after = cpus_of_this_thread();
    EXPECT_TRUE(CPU_EQUAL(&after, &all));
  });
}

TEST(Nudge, LeavesABoundThreadWhereItIs) {
  begin_on_the_first_cpu([](const cpu_set_t&) {
    const int cpu = ::sched_getcpu();
    stand_on(cpu);
    EXPECT_EQ(move_to_cpu_in_turn(0), -1);
    EXPECT_EQ(move_to_cpu_in_turn(1), -1);
    EXPECT_EQ(::sched_getcpu(), cpu);
  });
}

// Of a wait that ends after so many looks.
void wait_for(int looks) {
  Patience patience(false);
  for (int i = 0; i < looks && !patience.worn_out(); ++i) patience.relax();
}

int looks_before_sleep() {
  Patience patience(false);
  int looks = 0;
  for (; !patience.worn_out(); patience.relax()) ++looks;
  return looks;
}

TEST(Patience, SpinsLessWhereOthersComeAsSoonAsItGivesWay) {
  std::thread([] {
    const int before = looks_before_sleep();
    ASSERT_GE(before, Patience::most_spins);
    for (int i = 1; i <= 20; ++i) {
      wait_for(std::max(Patience::most_spins >> (i - 1), Patience::least_spins) + 1);
      EXPECT_EQ(Patience::ended_by_giving_way(), i);
    }
    EXPECT_LT(looks_before_sleep(), before / 10);
    // They come while it spins: each has its core again.
    for (int i = 0; i < 20; ++i) wait_for(1);
    EXPECT_EQ(Patience::ended_by_giving_way(), 0);
    EXPECT_EQ(looks_before_sleep(), before);
  }).join();
}

// A wait that ends at once, or long after it gave way, says nothing of who shares a core.
TEST(Patience, LearnsNothingFromOtherWaits) {
  std::thread([] {
    const int before = looks_before_sleep();
    for (int i = 0; i < 20; ++i) {
      wait_for(0);
      wait_for(Patience::most_spins + 20);
    }
    EXPECT_EQ(Patience::ended_by_giving_way(), 0);
    EXPECT_EQ(looks_before_sleep(), before);
  }).join();
}

// Two ranks, each of which may run on all CPUs, begin on one.
TEST(Nudge, RanksThatBeganOnOneCoreAreMovedApart) {
  if (this_machine().cores < 2) GTEST_SKIP() << "one CPU only";
  begin_on_the_first_cpu([](const cpu_set_t&) {
    run_ranks(2, [](Communicator& comm) {
      for (int i = 0; i < 20'000; ++i) comm.run(PlainCall{});
      EXPECT_LT(Patience::ended_by_giving_way(), 20'000) << "all the time on one core";
    });
  });
}

}  // namespace
}  // namespace rondo::test
