#include "src/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace rondo {

std::set<std::uint64_t> crowded_machines(const std::vector<ProcessIdentity>& processes,
                                         const std::vector<CpuAllowance>& allowances) {
  struct Machine {
    int ranks = 0;
    cpu_set_t cpus{};
  };
  struct Host {
    int ranks = 0;
    double quota = std::numeric_limits<double>::infinity();
  };
  std::map<std::uint64_t, Machine> machines;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Host> hosts;  // by machine and network
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    Machine& machine = machines[processes[rank].boot];
    ++machine.ranks;
    CPU_OR(&machine.cpus, &machine.cpus, &allowances[rank].cpus);
    Host& host = hosts[{processes[rank].boot, processes[rank].network}];
    ++host.ranks;
    host.quota = std::min(host.quota, allowances[rank].quota);
  }
  std::set<std::uint64_t> crowded;
  for (const auto& [boot, machine] : machines)
    if (machine.ranks > CPU_COUNT(&machine.cpus)) crowded.insert(boot);
  for (const auto& [where, host] : hosts)
    if (host.ranks > host.quota) crowded.insert(where.first);
  return crowded;
}

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

std::vector<std::vector<int>> Hosts::parties() const {
  if (!one()) return ranks;
  std::vector<std::vector<int>> alone;
  for (const int rank : ranks.front()) alone.push_back({rank});
  return alone;
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
