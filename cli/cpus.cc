#include "cli/cpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/control_groups.h"

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
