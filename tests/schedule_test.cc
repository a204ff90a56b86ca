// Schedules in plain arrays, without a transport: rings of 1 to 16 ranks, trees and doubling of 1 to 33.
#include "src/schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "src/doubling_schedule.h"
#include "src/tree_schedule.h"

namespace rondo {
namespace {

// A chunk on its way or stored: which ranks have contributed, in this order.
using Contributions = std::vector<int>;

// What every rank has stored after all of them have run their schedules, and how many chunks each has sent.
struct Outcome {
  std::vector<std::map<int, Contributions>> stored;  // by rank, by chunk
  std::vector<int> sent;
};

// Runs the schedules of a ring round robin; a step waits until its left neighbour has sent.
Outcome run(const std::vector<std::vector<Step>>& schedules) {
  const int size = static_cast<int>(schedules.size());
  Outcome outcome{std::vector<std::map<int, Contributions>>(schedules.size()),
                  std::vector<int>(schedules.size())};
  std::vector<std::deque<std::pair<int, Contributions>>> wires(schedules.size());  // into each rank
  std::vector<std::size_t> position(schedules.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (position[r] == schedules[r].size()) continue;
      const Step& step = schedules[r][position[r]];
      if (step.receive && wires[r].empty()) continue;
      Contributions value;
      if (step.receive) {
        EXPECT_EQ(wires[r].front().first, step.chunk) << "rank " << rank << " expected another chunk";
        value = wires[r].front().second;
        wires[r].pop_front();
      }
      if (step.reduce || !step.receive) value.push_back(rank);
      if (step.store) outcome.stored[r][step.chunk] = value;
      if (step.send) {
        wires[(r + 1) % schedules.size()].push_back({step.chunk, value});
        ++outcome.sent[r];
      }
      ++position[r];
      moved = true;
    }
  }
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    EXPECT_EQ(position[r], schedules[r].size()) << "rank " << r << " waits for ever";
    EXPECT_TRUE(wires[r].empty()) << "something was sent to rank " << r << " that it never took";
  }
  return outcome;
}

template <typename Make>
Outcome run_all(int size, Make make) {
  std::vector<std::vector<Step>> schedules;
  for (int rank = 0; rank < size; ++rank) schedules.push_back(make(rank));
  return run(schedules);
}

Contributions sorted(Contributions value) {
  std::sort(value.begin(), value.end());
  return value;
}

Contributions everyone(int size) {
  Contributions all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Schedule : public ::testing::TestWithParam<int> {};

TEST_P(Schedule, ReduceScatterLeavesChunkRWholeOnRankR) {
  const int size = GetParam();
  const Outcome outcome = run_all(size, [&](int rank) { return ring_reduce_scatter(rank, size); });
  for (int rank = 0; rank < size; ++rank) {
    const auto& stored = outcome.stored[static_cast<std::size_t>(rank)];
    ASSERT_EQ(stored.size(), 1u);
    EXPECT_EQ(stored.begin()->first, rank);
    EXPECT_EQ(sorted(stored.begin()->second), everyone(size));
    EXPECT_EQ(outcome.sent[static_cast<std::size_t>(rank)], size - 1);
  }
}

TEST_P(Schedule, AllGatherBringsEveryChunkFromItsOwner) {
  const int size = GetParam();
  const Outcome outcome = run_all(size, [&](int rank) { return ring_all_gather(rank, size); });
  for (int rank = 0; rank < size; ++rank) {
    for (int chunk = 0; chunk < size; ++chunk)
      EXPECT_EQ(outcome.stored[static_cast<std::size_t>(rank)].at(chunk), Contributions{chunk});
    EXPECT_EQ(outcome.sent[static_cast<std::size_t>(rank)], size - 1);
  }
}

TEST_P(Schedule, AllReduceLeavesEveryChunkWholeAndAlikeEverywhere) {
  const int size = GetParam();
  const Outcome outcome = run_all(size, [&](int rank) { return ring_all_reduce(rank, size); });
  for (int rank = 0; rank < size; ++rank) {
    for (int chunk = 0; chunk < size; ++chunk) {
      const Contributions& value = outcome.stored[static_cast<std::size_t>(rank)].at(chunk);
      EXPECT_EQ(sorted(value), everyone(size));
      EXPECT_EQ(value, outcome.stored[0].at(chunk)) << "another order of summation on rank " << rank;
    }
    EXPECT_EQ(outcome.sent[static_cast<std::size_t>(rank)], 2 * (size - 1));
  }
}

TEST_P(Schedule, BroadcastAndReduceWorkForEveryRoot) {
  const int size = GetParam();
  for (int root = 0; root < size; ++root) {
    const Outcome cast = run_all(size, [&](int rank) { return ring_broadcast(rank, size, root); });
    const Outcome reduced = run_all(size, [&](int rank) { return ring_reduce(rank, size, root); });
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(cast.stored[static_cast<std::size_t>(rank)].at(0), Contributions{root});
      EXPECT_EQ(reduced.stored[static_cast<std::size_t>(rank)].count(0), rank == root ? 1u : 0u);
    }
    EXPECT_EQ(sorted(reduced.stored[static_cast<std::size_t>(root)].at(0)), everyone(size));
    EXPECT_EQ(std::accumulate(cast.sent.begin(), cast.sent.end(), 0), size - 1);
    EXPECT_EQ(std::accumulate(reduced.sent.begin(), reduced.sent.end(), 0), size - 1);
  }
}

// ---- trees ----

using Parties = std::vector<std::vector<int>>;

Parties alone(int size) {
  Parties parties;
  for (int rank = 0; rank < size; ++rank) parties.push_back({rank});
  return parties;
}

// When each rank has what the root has, if whoever has it serves one child a round; -1: never.
std::vector<int> rounds_of_tree(int size, int root, const Parties& parties) {
  std::vector<int> round(static_cast<std::size_t>(size), -1);
  round[static_cast<std::size_t>(root)] = 0;
  std::deque<int> to_serve{root};
  while (!to_serve.empty()) {
    const int rank = to_serve.front();
    to_serve.pop_front();
    int now = round[static_cast<std::size_t>(rank)];
    for (const int child : role_in_tree(rank, root, parties).children) {
      EXPECT_EQ(role_in_tree(child, root, parties).parent, rank);
      EXPECT_EQ(round[static_cast<std::size_t>(child)], -1) << "served twice";
      round[static_cast<std::size_t>(child)] = ++now;
      to_serve.push_back(child);
    }
  }
  EXPECT_EQ(role_in_tree(root, root, parties).parent, -1);
  return round;
}

TEST(Tree, ReachesAllRanksInFewRoundsFromEveryRoot) {
  for (int size = 1; size <= 33; ++size)
    for (int root = 0; root < size; ++root) {
      const std::vector<int> rounds = rounds_of_tree(size, root, alone(size));
      EXPECT_EQ(std::count(rounds.begin(), rounds.end(), -1), 0) << size << ", root " << root;
      EXPECT_EQ(*std::max_element(rounds.begin(), rounds.end()),
                std::bit_width(static_cast<unsigned>(size - 1)));
    }
}

TEST(Tree, EntersEachPartyOnce) {
  for (const Parties& parties :
       {Parties{{0, 2}, {1, 3}}, Parties{{0}, {1, 2, 3}, {4, 5}}, Parties{{3, 1}, {0, 5, 6}, {4}, {2}}}) {
    int size = 0;
    for (const auto& party : parties) size += static_cast<int>(party.size());
    const auto party_of = [&](int rank) {
      return std::find_if(parties.begin(), parties.end(), [&](const auto& party) {
        return std::find(party.begin(), party.end(), rank) != party.end();
      });
    };
    for (int root = 0; root < size; ++root) {
      const std::vector<int> rounds = rounds_of_tree(size, root, parties);
      EXPECT_EQ(std::count(rounds.begin(), rounds.end(), -1), 0) << size << ", root " << root;
      std::size_t entered = 1;
      for (int rank = 0; rank < size; ++rank)
        for (const int child : role_in_tree(rank, root, parties).children)
          entered += party_of(rank) == party_of(child) ? 0 : 1;
      EXPECT_EQ(entered, parties.size()) << "root " << root;
    }
  }
}

// ---- doubling ----

TEST(Doubling, GroupsAreAPowerOfTwoOfNeighbours) {
  EXPECT_EQ(doubling_groups(alone(4)), (Parties{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(doubling_groups(alone(7)), (Parties{{0, 1}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(doubling_groups({{0, 3}, {1, 2}, {4}}), (Parties{{0, 3, 1, 2}, {4}}));
}

// What the groups have after all rounds, each (whose input, for whom): nothing twice, and of what is for
// themselves all.
TEST(Doubling, BringsAllInputsToAllRanksOnce) {
  for (int size = 1; size <= 33; ++size) {
    const Parties groups = doubling_groups(alone(size));
    const int count = static_cast<int>(groups.size());
    std::vector<std::set<std::pair<int, int>>> has(groups.size());
    for (int rank = 0; rank < size; ++rank)
      for (int reader = 0; reader < size; ++reader)
        has[static_cast<std::size_t>(group_of(groups, rank))].emplace(rank, reader);
    for (int distance = 1; distance < count; distance *= 2) {
      const auto before = has;
      for (int group = 0; group < count; ++group)
        for (const int source : held_before(groups, group ^ distance, distance))
          for (const int reader : served_after(groups, group, distance)) {
            EXPECT_EQ(before[static_cast<std::size_t>(group ^ distance)].count({source, reader}), 1u);
            EXPECT_TRUE(has[static_cast<std::size_t>(group)].emplace(source, reader).second) << "twice";
          }
    }
    for (int rank = 0; rank < size; ++rank)
      for (int source = 0; source < size; ++source)
        EXPECT_EQ(has[static_cast<std::size_t>(group_of(groups, rank))].count({source, rank}), 1u) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Schedule, ::testing::Range(1, 17));

}  // namespace
}  // namespace rondo
