// The parts that commands share: tables, progress, ranks of the program itself, shares of the CPUs.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "cli/cpus.h"
#include "cli/local_ranks.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/tune_choice.h"
#include "src/calls.h"
#include "src/error.h"
#include "tests/ranks.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

TEST(Table, AlignsAndGroups) {
  Table table({{"what"}, number_column("bytes")});
  table.add({"layer", 4720896});
  table.add_rule();
  table.add({"Σ", 12});
  EXPECT_EQ(table.text(false),
            "  what       bytes\n"
            "  ─────  ─────────\n"
            "  layer  4,720,896\n"
            "  ─────  ─────────\n"
            "  Σ             12\n");
}

TEST(Table, ColourDoesNotShiftColumns) {
  Table table({{""}, {""}});
  table.add({{"a", Style::red}, "b"});
  EXPECT_EQ(table.text(true), "  \033[31ma\033[0m  b\n");
}

TEST(Table, RefusesTooManyCells) {
  Table table({{"one"}});
  EXPECT_THROW(table.add({"1", "2"}), Error);
}

TEST(Grouped, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(std::uint64_t{18446744073709551615u}), "18,446,744,073,709,551,615");
}

TEST(Progress, TellsTheTimeLeft) {
  EXPECT_EQ(progress_line("train", 25, 100, 10s, 60),
            "train ━━━━━━━······················  25%  25/100  30 s left");
  EXPECT_EQ(progress_line("train", 0, 100, 0s, 20), "train   0%  0/100  ? left");
  EXPECT_EQ(duration_text(3725s), "1 h 02 min");
}

using Shares = std::vector<std::vector<int>>;

TEST(Cpus, AreSharedByWholeCores) {
  // Two hardware threads a core.
  const CacheGroup four{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_EQ(share_cores({four}, 4), (Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(share_cores({four}, 3), (Shares{{0, 4}, {1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(share_cores({four}, 1), (Shares{{0, 4, 1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(share_cores({four}, 5), Shares{});  // more ranks than cores
}

TEST(Cpus, OfOneRankShareACacheAsFarAsThatGoes) {
  const std::vector<CacheGroup> even{{{0}, {1}, {2}, {3}}, {{4}, {5}, {6}, {7}}};
  EXPECT_EQ(share_cores(even, 2), (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(share_cores(even, 3), (Shares{{0, 1}, {2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(share_cores(even, 5), (Shares{{0}, {1}, {2, 3}, {4, 5}, {6, 7}}));
  // What a cpuset leaves may be uneven.
  const std::vector<CacheGroup> uneven{{{1}}, {{4}, {5}, {6}}, {{9}}};
  EXPECT_EQ(share_cores(uneven, 2), (Shares{{1}, {4, 5, 6, 9}}));
  EXPECT_EQ(share_cores(uneven, 4), (Shares{{1}, {4}, {5, 6}, {9}}));
  EXPECT_EQ(share_cores(uneven, 5), (Shares{{1}, {4}, {5}, {6}, {9}}));
  EXPECT_EQ(share_cores(uneven, 6), Shares{});
}

// The cpuset counts, not the machine.
TEST(Cpus, ThatAreUsableAreThoseOfThisProcess) {
  cpu_set_t before = allowed_cpus(), one;
  const int first = cpu_numbers(before).front();
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(first), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), (std::vector<CacheGroup>{{{first}}}));
  ::sched_setaffinity(0, sizeof before, &before);
  std::vector<int> cpus;
  for (const CacheGroup& group : usable_cores())
    for (const Core& core : group) cpus.insert(cpus.end(), core.begin(), core.end());
  std::sort(cpus.begin(), cpus.end());
  EXPECT_EQ(cpus, cpu_numbers(before));
}

TEST(Cpus, ListsAreShort) { EXPECT_EQ(cpu_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8"); }

// ---- what rondo tune makes of its measurements ----

TEST(TuneChoice, TakesWhatIsFasterInEveryRound) {
  const Rounds standard{10, 11, 30}, faster{8, 9, 25}, fastest{7, 8, 20}, unsteady{5, 5, 31},
      equal{10, 10.9, 29.9};
  const auto value_of = [&](std::vector<const Rounds*> others) {
    std::vector<Candidate> candidates{{0, {&standard}}};
    for (const Rounds* other : others) candidates.push_back({candidates.size(), {other}});
    return choose(candidates).value;
  };
  EXPECT_EQ(value_of({&faster, &fastest}), 2u);
  EXPECT_EQ(value_of({&unsteady}), 0u);  // one round contradicts
  EXPECT_EQ(value_of({&equal}), 0u);     // less than it takes
  EXPECT_EQ(value_of({}), 0u);
}

TEST(TuneChoice, CasesThatDoTheSameAreNoArgument) {
  const Rounds same{100, 100}, slow{10, 10}, quick{5, 5};
  const Choice choice = choose({{1, {&same, &slow}}, {2, {&same, &quick}}});
  EXPECT_EQ(choice.value, 2u);
  EXPECT_DOUBLE_EQ(choice.gain, 2);
}

TEST(TuneChoice, FindsTheThresholdBetweenTwoWays) {
  const std::vector<TwoWays> cases{{100, {1, 1}, {2, 2}}, {200, {3, 3}, {4, 4}}, {400, {9, 9}, {6, 6}}};
  EXPECT_EQ(choose_threshold(0, cases).value, 200u);
  EXPECT_EQ(choose_threshold(400, cases).value, 200u);
  EXPECT_EQ(choose_threshold(250, cases).value, 250u);  // does what 200 does: it stays
  EXPECT_EQ(choose_threshold(250, {}).value, 250u);
}

// Runs ranks, and gives what was printed to stderr beside the status.
std::pair<int, std::string> local(std::optional<int> ranks, const RankBody& body) {
  ::testing::internal::CaptureStderr();
  const int status = run_local_ranks(ranks, test::test_options(), body);
  return {status, ::testing::internal::GetCapturedStderr()};
}

void add_up(Communicator& communicator) {
  const Seat seat{communicator.rank(), communicator.size()};
  float value = 1;
  communicator.run(all_reduce_call(seat, &value, &value, 1, DataType::f32, {}));
  if (value != static_cast<float>(seat.size)) fail(ErrorKind::internal, "sum {}", value);
}

TEST(LocalRanks, AllRun) { EXPECT_EQ(local(4, add_up), (std::pair<int, std::string>{0, ""})); }

TEST(LocalRanks, TheFirstFailureIsToldOnce) {
  const auto [status, text] = local(4, [](Communicator& communicator) {
    add_up(communicator);
    if (communicator.rank() == 2) fail(ErrorKind::system, "the disk is full");
    add_up(communicator);
  });
  EXPECT_EQ(status, 1);
  EXPECT_EQ(text, "rondo: rank 2: the disk is full\n");
}

TEST(LocalRanks, BadArgumentsAreUsageErrors) {
  const auto [status, text] =
      local(3, [](Communicator&) { fail(ErrorKind::invalid_argument, "--batch 0: expected more"); });
  EXPECT_EQ(status, 2);
  EXPECT_EQ(text, "rondo: --batch 0: expected more\n");
}

TEST(LocalRanks, AKilledRankIsNamed) {
  const auto [status, text] = local(3, [](Communicator& communicator) {
    if (communicator.rank() == 1) ::raise(SIGKILL);
    add_up(communicator);
  });
  EXPECT_EQ(status, 137);
  EXPECT_EQ(text, "rondo: rank 1 was ended by signal 9 (Killed)\n");
}

TEST(LocalRanks, OthersAreEndedWhereverTheyAre) {
  const auto start = std::chrono::steady_clock::now();
  const auto [status, text] = local(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) fail(ErrorKind::system, "no");
    std::this_thread::sleep_for(60s);
  });
  EXPECT_EQ(status, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(LocalRanks, ContradictionWithALauncherIsAnError) {
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("RONDO_MASTER_PORT", "29999", 1);
  EXPECT_THROW(run_local_ranks(4, test::test_options(), add_up), Error);
  EXPECT_EQ(run_local_ranks(std::nullopt, test::test_options(), add_up), 0);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "RONDO_MASTER_PORT"}) ::unsetenv(name);
}

TEST(LocalRanks, CountIsChecked) {
  EXPECT_THROW(run_local_ranks(0, test::test_options(), add_up), Error);
  EXPECT_THROW(run_local_ranks(100000, test::test_options(), add_up), Error);
}

}  // namespace
}  // namespace rondo
