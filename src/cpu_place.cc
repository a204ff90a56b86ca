#include "src/cpu_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "src/control_groups.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_in(const fs::path& file) {
  std::ifstream stream(file);
  int number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

// The CPUs that share a CPU's cache of the highest level; empty where the kernel tells of none.
std::vector<int> last_cache_sharers(const fs::path& cpu) {
  std::string list;
  int highest = 0;
  for (int index = 0;; ++index) {
    const fs::path cache = cpu / fmt::format("cache/index{}", index);
    const auto level = number_in(cache / "level");
    if (!level) break;
    if (*level < highest) continue;
    highest = *level;
    std::ifstream(cache / "shared_cpu_list") >> list;
  }
  return parse_cpu_list(list);
}

int numa_node(const fs::path& cpu) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cpu, none))
    if (const std::string name = entry.path().filename();
        name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos)
      return std::stoi(name.substr(4));
  return 0;
}

}  // namespace

CpuPlace cpu_place(std::span<const int> cpus, const fs::path& system) {
  if (cpus.empty()) return {};
  const fs::path cpu = system / fmt::format("cpu{}", cpus.front());
  const std::vector<int> sharers = last_cache_sharers(cpu);
  const bool in_one_cache = std::includes(sharers.begin(), sharers.end(), cpus.begin(), cpus.end());
  const auto package = number_in(cpu / "topology/physical_package_id"),
             core = number_in(cpu / "topology/core_id");
  if (sharers.empty() || !in_one_cache || !package || !core) return {};
  return {*package, numa_node(cpu), sharers.front(), *core};
}

}  // namespace rondo
