// The CPUs that this process may use.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace rondo {

cpu_set_t allowed_cpus();
std::vector<int> cpu_numbers(const cpu_set_t& cpus);
// Such as "0-3,8".
std::string cpu_list(const std::vector<int>& sorted_cpus);

// How many ranks can run at the same time: allowed CPUs, and no more than the quota; at least 1.
int usable_cpus();

// The CPUs of each rank: a run of neighbours for each where there are enough, else one, shared.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int ranks);

}  // namespace rondo
