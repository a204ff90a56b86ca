// Which ranks share a host. A host is one kernel's one network namespace: what shared memory and sockets with
// abstract names reach.
#pragma once

#include <sched.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/cpu_place.h"
#include "src/process.h"

namespace rondo {

// What a rank may have of its machine.
struct CpuAllowance {
  cpu_set_t cpus;  // where it may run
  double quota;    // how many CPUs' worth of time its containers leave it
};
// Both by rank. The machines, by their boot, whose ranks outnumber their CPUs, or where on some host they
// outnumber a quota: hosts that are containers may have one each.
std::set<std::uint64_t> crowded_machines(const std::vector<ProcessIdentity>& processes,
                                         const std::vector<CpuAllowance>& allowances);

struct Hosts {
  std::vector<int> of;                    // by rank: its host; numbered in the order of their first ranks
  std::vector<std::vector<int>> ranks;    // by host, in order
  std::vector<int> place;                 // by rank: which of its host's ranks it is
  std::vector<std::string> descriptions;  // by rank: "rank 2 on host node7 (10.0.0.7)"
  std::vector<CpuPlace> cpus;             // by rank
  // Whether some machine is crowded.
  bool short_of_cores = false;

  // All are by rank; a name is what messages call the rank's host.
  static Hosts group(const std::vector<ProcessIdentity>& processes, const std::vector<std::string>& names,
                     std::vector<CpuPlace> cpus);

  bool one() const { return ranks.size() == 1; }
  bool together(int a, int b) const { return host(a) == host(b); }
  int host(int rank) const { return of[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& neighbours(int rank) const { return ranks[static_cast<std::size_t>(host(rank))]; }
  int place_of(int rank) const { return place[static_cast<std::size_t>(rank)]; }
  const std::string& description(int rank) const { return descriptions[static_cast<std::size_t>(rank)]; }
  // The ranks that stand together in a tree: those of a host, or, where all are on one, each alone.
  std::vector<std::vector<int>> parties() const;
  // All ranks, host after host: a ring in this order enters each host once. Within a host along its cores, if
  // all of its ranks are bound, else by number.
  std::vector<int> ring() const;
};

}  // namespace rondo
