#include "src/hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {

Hosts Hosts::group(const std::vector<ProcessIdentity>& processes, const std::vector<std::string>& names) {
  Hosts hosts;
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
  std::vector<int> order;
  for (const auto& host : ranks) order.insert(order.end(), host.begin(), host.end());
  return order;
}

}  // namespace rondo
