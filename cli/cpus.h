// The CPUs that this process may use.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "cli/topology.h"
#include "src/control_groups.h"

namespace rondo {

cpu_set_t allowed_cpus();
// Such as "0-3,8".
std::string cpu_list(const std::vector<int>& sorted_cpus);

// How many ranks can run at the same time: allowed CPUs, and no more than the quota; at least 1.
int usable_cpus();

// The cores that this process may use, by shared cache, with those of their CPUs that it may use.
std::vector<CacheGroup> usable_cores();
std::size_t core_count(const std::vector<CacheGroup>& groups);

// The CPUs of each rank: cores of its own, which share a cache as far as that goes. Empty where ranks
// outnumber cores.
std::vector<std::vector<int>> share_cores(const std::vector<CacheGroup>& groups, int ranks);

}  // namespace rondo
