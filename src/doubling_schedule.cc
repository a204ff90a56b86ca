#include "src/doubling_schedule.h"

#include <algorithm>
#include <bit>

namespace rondo {
namespace {

using Groups = std::vector<std::vector<int>>;

template <typename Is>
std::vector<int> ranks_of(const Groups& groups, Is is) {
  std::vector<int> ranks;
  for (int group = 0; group < static_cast<int>(groups.size()); ++group)
    if (is(group)) {
      const auto& more = groups[static_cast<std::size_t>(group)];
      ranks.insert(ranks.end(), more.begin(), more.end());
    }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

Groups doubling_groups(const Groups& parties) {
  const std::size_t count = std::bit_floor(parties.size()), doubled = parties.size() - count;
  Groups groups(count);
  for (std::size_t party = 0; party < parties.size(); ++party) {
    auto& group = groups[party < 2 * doubled ? party / 2 : party - doubled];
    group.insert(group.end(), parties[party].begin(), parties[party].end());
  }
  return groups;
}

int group_of(const Groups& groups, int rank) {
  const auto holds = [&](const std::vector<int>& group) {
    return std::find(group.begin(), group.end(), rank) != group.end();
  };
  return static_cast<int>(std::find_if(groups.begin(), groups.end(), holds) - groups.begin());
}

std::vector<int> held_before(const Groups& groups, int group, int distance) {
  return ranks_of(groups, [&](int other) { return other / distance == group / distance; });
}

std::vector<int> served_after(const Groups& groups, int group, int distance) {
  return ranks_of(groups, [&](int other) { return (other ^ group) % (2 * distance) == 0; });
}

}  // namespace rondo
