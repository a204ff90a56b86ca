#include "src/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/control_groups.h"

namespace rondo {
namespace {

// As the kernel tells it of the CPU that we run on: the C library's answer may be that of all CPUs of the
// machine that lends us some.
std::size_t cache_bytes(int level, std::size_t otherwise) {
  const std::string folder =
      fmt::format("/sys/devices/system/cpu/cpu{}/cache/", std::max(0, ::sched_getcpu()));
  for (int index = 0;; ++index) {
    const std::string cache = fmt::format("{}index{}/", folder, index);
    std::ifstream level_file(cache + "level"), type_file(cache + "type"), size_file(cache + "size");
    int found = 0;
    std::string type;
    std::size_t kib = 0;
    if (!(level_file >> found)) return otherwise;
    if (found == level && type_file >> type && type != "Instruction" && size_file >> kib && kib > 0)
      return kib * 1024;
  }
}

// The first CPU's: "model name" on x86, "CPU part" on Arm.
std::string cpu_model() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line) && !line.empty();)
    for (const char* key : {"model name", "CPU part"})
      if (line.starts_with(key))
        if (const std::size_t colon = line.find(": "); colon != std::string::npos)
          return line.substr(colon + 2);
  return "unknown";
}

int core_count() {
  const std::size_t cpus = cpus_of_group().size();
  return static_cast<int>(cpus > 0 ? cpus : static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

const Machine& this_machine() {
  // Never destroyed: the progress thread may outlive static objects.
  static const auto& machine =
      *new Machine{cpu_model(), core_count(), cache_bytes(2, 1 << 20), cache_bytes(3, 32 << 20)};
  return machine;
}

}  // namespace rondo
