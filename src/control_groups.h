// What the control groups that this process is in leave it of the CPUs: cgroup v2 and v1, in containers and
// outside.
#pragma once

#include <sched.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

// Where the system tells of control groups; tests have a folder of their own.
struct ControlGroups {
  std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path membership = "/proc/self/cgroup";
};

// CPUs' worth of time: the least that this process's group and those around it leave. Nothing where no group
// sets a limit.
std::optional<double> cpu_quota(const ControlGroups& groups = {});

// Numbers of the CPUs that the group may use, whatever this process alone is bound to. Empty where the system
// does not tell.
std::vector<int> cpus_of_group(const ControlGroups& groups = {});

// Of the CPUs in a set, in order.
std::vector<int> cpu_numbers(const cpu_set_t& cpus);
// Such as "0-3,8". Empty for anything else.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace rondo
