#include "src/control_groups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace rondo {
namespace {

namespace fs = std::filesystem;

bool names(const std::string& controllers, const std::string& controller) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');)
    if (one == controller) return true;
  return false;
}

// The group's folder and those around it, from the innermost on. A container that sees its own group as the
// root may be told the group's path outside, which is not there then: only the root is.
void add_folders(std::vector<fs::path>& folders, const fs::path& root, const fs::path& group) {
  for (fs::path inner = group.relative_path(); !inner.empty(); inner = inner.parent_path())
    folders.push_back(root / inner);
  folders.push_back(root);
}

// Of the one hierarchy of v2, or of a controller's own, which is v1's.
std::vector<fs::path> folders_of(const ControlGroups& groups, const std::string& controller) {
  std::vector<fs::path> folders;
  std::ifstream lines(groups.membership);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      add_folders(folders, groups.root, group);
      add_folders(folders, groups.root / "unified", group);
    } else if (names(controllers, controller)) {
      add_folders(folders, groups.root / controller, group);
    }
  }
  return folders;
}

// An unlimited group has the word "max" or a negative number there.
std::optional<double> quota_in(const fs::path& folder) {
  double quota = 0, period = 0;
  std::ifstream both(folder / "cpu.max");
  if (both >> quota >> period && quota > 0 && period > 0) return quota / period;
  std::ifstream v1_quota(folder / "cpu.cfs_quota_us"), v1_period(folder / "cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<int> number_from(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<double> cpu_quota(const ControlGroups& groups) {
  std::optional<double> least;
  for (const fs::path& folder : folders_of(groups, "cpu"))
    if (const auto quota = quota_in(folder)) least = std::min(*quota, least.value_or(*quota));
  return least;
}

std::vector<int> cpu_numbers(const cpu_set_t& cpus) {
  std::vector<int> numbers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &cpus)) numbers.push_back(cpu);
  return numbers;
}

std::vector<int> cpus_of_group(const ControlGroups& groups) {
  for (const fs::path& folder : folders_of(groups, "cpuset"))
    for (const char* name : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"}) {
      std::string text;
      if (std::ifstream file(folder / name); file >> text)
        if (std::vector<int> cpus = parse_cpu_list(text); !cpus.empty()) return cpus;
    }
  return {};
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const auto first = number_from(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number_from(range.substr(dash + 1));
    if (!first || !last) return {};
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace rondo
