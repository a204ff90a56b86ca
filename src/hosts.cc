#include "src/hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {

Hosts Hosts::group(const std::vector<ProcessIdentity>& processes, const std::vector<std::string>& names,
                   std::vector<CpuPlace> cpus) {
  Hosts hosts;
  hosts.cpus = std::move(cpus);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const auto known = std::find_if(hosts.ranks.begin(), hosts.ranks.end(), [&](const auto& ranks) {
      return same_host(processes[static_cast<std::size_t>(ranks.front())], processes[rank]);
    });
    const auto host = static_cast<std::size_t>(known - hosts.ranks.begin());
    if (known == hosts.ranks.end()) hosts.ranks.emplace_back();
    hosts.of.push_back(static_cast<int>(host));
    hosts.place.push_back(static_cast<int>(hosts.ranks[host].size()));
    hosts.ranks[host].push_back(static_cast<int>(rank));
    hosts.descriptions.push_back(fmt::format("rank {} on host {}", rank, names[rank]));
  }
  return hosts;
}

std::vector<int> Hosts::ring() const {
  const auto cpus_of = [&](int rank) { return cpus[static_cast<std::size_t>(rank)]; };
  std::vector<int> order;
  for (std::vector<int> host : ranks) {
    if (std::all_of(host.begin(), host.end(), [&](int rank) { return cpus_of(rank).known(); }))
      std::stable_sort(host.begin(), host.end(), [&](int a, int b) { return cpus_of(a) < cpus_of(b); });
    order.insert(order.end(), host.begin(), host.end());
  }
  return order;
}

}  // namespace rondo
