#include "cli/cpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/control_groups.h"

namespace rondo {
namespace {

std::vector<int> joined(const CacheGroup& group) {
  std::vector<int> cpus;
  for (const Core& core : group) cpus.insert(cpus.end(), core.begin(), core.end());
  return cpus;
}

// Cuts things into runs of neighbours, as even as can be: a share for each run, of all their CPUs.
template <typename Thing, typename CpusOf>
void add_runs(std::vector<std::vector<int>>& shares, const std::vector<Thing>& things, std::size_t runs,
              CpusOf cpus_of) {
  for (std::size_t run = 0; run < runs; ++run) {
    std::vector<int>& share = shares.emplace_back();
    for (std::size_t i = run * things.size() / runs; i < (run + 1) * things.size() / runs; ++i) {
      const std::vector<int> cpus = cpus_of(things[i]);
      share.insert(share.end(), cpus.begin(), cpus.end());
    }
  }
}

// How many ranks each group takes: one after another goes where most cores are left for each, so that no rank
// needs cores of two groups.
std::vector<std::size_t> seats_of(const std::vector<CacheGroup>& groups, std::size_t ranks) {
  std::vector<std::size_t> seats(groups.size());
  const auto left_for_each = [&](std::size_t group) {
    return static_cast<double>(groups[group].size()) / static_cast<double>(seats[group] + 1);
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t best = 0;
    for (std::size_t group = 1; group < groups.size(); ++group)
      if (std::pair(left_for_each(group), seats[best]) > std::pair(left_for_each(best), seats[group]))
        best = group;
    ++seats[best];
  }
  return seats;
}

}  // namespace

cpu_set_t allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_SET(0, &cpus);
  return cpus;
}

std::string cpu_list(const std::vector<int>& sorted_cpus) {
  std::string text;
  for (std::size_t first = 0; first < sorted_cpus.size();) {
    std::size_t last = first;
    while (last + 1 < sorted_cpus.size() && sorted_cpus[last + 1] == sorted_cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", sorted_cpus[first]);
    if (last > first) text += fmt::format("-{}", sorted_cpus[last]);
    first = last + 1;
  }
  return text;
}

int usable_cpus() {
  const cpu_set_t cpus = allowed_cpus();
  const int count = CPU_COUNT(&cpus);
  const double quota = cpu_quota().value_or(count);
  return std::max(1, std::min(count, static_cast<int>(quota)));
}

std::vector<CacheGroup> usable_cores() {
  const cpu_set_t allowed = allowed_cpus();
  std::vector<CacheGroup> groups;
  if (const auto topology = read_topology()) groups = topology->cache_groups;
  for (CacheGroup& group : groups) {
    for (Core& core : group)
      std::erase_if(core, [&](int cpu) { return !CPU_ISSET(static_cast<std::size_t>(cpu), &allowed); });
    std::erase_if(group, [](const Core& core) { return core.empty(); });
  }
  std::erase_if(groups, [](const CacheGroup& group) { return group.empty(); });
  if (!groups.empty()) return groups;
  // Nothing is known of cores and caches.
  CacheGroup all;
  for (const int cpu : cpu_numbers(allowed)) all.push_back({cpu});
  return {all};
}

std::size_t core_count(const std::vector<CacheGroup>& groups) {
  std::size_t cores = 0;
  for (const CacheGroup& group : groups) cores += group.size();
  return cores;
}

std::vector<std::vector<int>> share_cores(const std::vector<CacheGroup>& groups, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  if (core_count(groups) < all) return {};
  std::vector<std::vector<int>> shares;
  if (all <= groups.size()) {
    add_runs(shares, groups, all, [](const CacheGroup& group) { return joined(group); });
    return shares;
  }
  const std::vector<std::size_t> seats = seats_of(groups, all);
  for (std::size_t group = 0; group < groups.size(); ++group)
    add_runs(shares, groups[group], seats[group], [](const Core& core) { return core; });
  return shares;
}

}  // namespace rondo
