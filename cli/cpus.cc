#include "cli/cpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace rondo {

cpu_set_t allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_SET(0, &cpus);
  return cpus;
}

std::vector<int> cpu_numbers(const cpu_set_t& cpus) {
  std::vector<int> numbers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &cpus)) numbers.push_back(cpu);
  return numbers;
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

std::optional<double> cpu_quota() {
  double quota = 0, period = 0;
  // An unlimited group has the word "max" there, which is no number.
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  if (v2 >> quota >> period && quota > 0 && period > 0) return quota / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
      v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

int usable_cpus() {
  const cpu_set_t cpus = allowed_cpus();
  const int count = CPU_COUNT(&cpus);
  const double quota = cpu_quota().value_or(count);
  return std::max(1, std::min(count, static_cast<int>(quota)));
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int ranks) {
  std::vector<std::vector<int>> shares;
  const std::size_t count = cpus.size(), all = static_cast<std::size_t>(ranks);
  for (std::size_t rank = 0; rank < all; ++rank) {
    if (count < all) {
      shares.push_back({cpus[rank % count]});
      continue;
    }
    const auto at = [&](std::size_t r) {
      return cpus.begin() + static_cast<std::ptrdiff_t>(r * count / all);
    };
    shares.emplace_back(at(rank), at(rank + 1));
  }
  return shares;
}

}  // namespace rondo
