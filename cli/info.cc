// `rondo info`: what this machine allows, and the settings in force.
#include <gnu/libc-version.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <dnnl.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands.h"
#include "cli/cpus.h"
#include "cli/probes.h"
#include "cli/table.h"
#include "cli/topology.h"
#include "src/control_groups.h"
#include "src/device.h"
#include "src/error.h"
#include "src/network.h"
#include "src/settings.h"
#include "src/tune_file.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::pair<std::string, std::string>>;

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kib = 1024, mib = kib * kib;
  if (bytes >= mib && bytes % mib == 0) return fmt::format("{} MiB", bytes / mib);
  return fmt::format("{} KiB", bytes / kib);
}

Rows library_rows() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"compiler", __VERSION__},
          {"glibc", gnu_get_libc_version()},
          {"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"hwloc", hwloc_version()},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"UCX", ucx_version().empty() ? "not built with it: one host only" : ucx_version() + " or later"},
          {"CUDA", process_device() == nullptr ? "no driver here, or not built with it: host memory only"
                                               : "a driver is here"}};
}

Json machine_json() {
  utsname system{};
  ::uname(&system);
  const auto cpus = cpu_numbers(allowed_cpus());
  Json machine{{"kernel", fmt::format("{} {}", system.sysname, system.release)},
               {"architecture", system.machine},
               {"allowed_cpus", cpu_list(cpus)},
               {"allowed_cpu_count", cpus.size()},
               {"cpu_quota", nullptr},
               {"usable_cpus", usable_cpus()},
               {"usable_cores", core_count(usable_cores())},
               {"topology", nullptr}};
  if (const auto quota = cpu_quota()) machine["cpu_quota"] = *quota;
  if (const auto topology = read_topology()) {
    Json caches = Json::array();
    for (const CacheLevel& cache : topology->caches)
      caches.push_back({{"level", cache.level}, {"count", cache.count}, {"bytes", cache.bytes}});
    machine["topology"] = {{"packages", topology->packages},
                           {"cores", topology->cores},
                           {"threads", topology->threads},
                           {"numa_nodes", topology->numa_nodes},
                           {"caches", caches}};
  }
  return machine;
}

std::string topology_text(const Json& topology) {
  if (topology.is_null()) return "not known (Rondo was built without hwloc, or hwloc cannot read it)";
  const auto several = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {}, {}", several(topology["packages"], "package"),
                     several(topology["cores"], "core"), several(topology["threads"], "hardware thread"),
                     several(topology["numa_nodes"], "NUMA node"));
}

std::string caches_text(const Json& topology) {
  std::vector<std::string> texts;
  if (!topology.is_null())
    for (const Json& cache : topology["caches"])
      texts.push_back(fmt::format("{} x L{} of {}", cache["count"].get<int>(), cache["level"].get<int>(),
                                  size_text(cache["bytes"].get<std::uint64_t>())));
  return texts.empty() ? "not known" : fmt::format("{}", fmt::join(texts, ", "));
}

Rows machine_rows(const Json& machine) {
  const Json& quota = machine["cpu_quota"];
  return {{"kernel", fmt::format("{}, {}", machine["kernel"].get<std::string>(),
                                 machine["architecture"].get<std::string>())},
          {"processors", topology_text(machine["topology"])},
          {"caches", caches_text(machine["topology"])},
          {"CPUs of this process", fmt::format("{} ({})", machine["allowed_cpus"].get<std::string>(),
                                               machine["allowed_cpu_count"].get<std::size_t>())},
          {"quota of its control group",
           quota.is_null() ? "none" : fmt::format("{:.2f} CPUs", quota.get<double>())},
          {"ranks with a CPU each", fmt::format("{}", machine["usable_cpus"].get<int>())},
          {"ranks with a core each (--bind)", fmt::format("{}", machine["usable_cores"].get<int>())}};
}

// What launchers set: no settings of a user, but his to know.
const std::set<std::string> launch_variables{"RONDO_MASTER_PORT", "RONDO_SECRET", "RONDO_LISTEN_FD",
                                             "RONDO_COMM_ID"};

std::string shown_value(const std::string& name, const std::string& value) {
  return name == "RONDO_SECRET" ? "(not shown)" : value;
}

std::string digits_grouped(const std::string& text) {
  const bool number = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? group_digits(text) : text;
}

Json settings_json(const std::optional<Settings>& settings) {
  Json rows = Json::array();
  std::set<std::string> known = launch_variables;
  known.insert("RONDO_TUNE_FILE");  // shown with the file
  for (const Variable& variable : variables()) {
    known.insert(variable.name);
    const char* set = std::getenv(variable.name);
    // What is bad is shown as it is.
    const std::string value = settings ? variable.text(*settings) : set != nullptr ? set : variable.text({});
    const Origin origin = settings         ? settings->origin_of(variable.name)
                          : set != nullptr ? Origin::environment
                                           : Origin::standard;
    rows.push_back({{"name", variable.name},
                    {"value", digits_grouped(value)},
                    {"from", name_of(origin)},
                    {"meaning", variable.meaning}});
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (!name.starts_with("RONDO_") || (known.contains(name) && !launch_variables.contains(name))) continue;
    const bool launcher = launch_variables.contains(name);
    rows.push_back({{"name", name},
                    {"value", shown_value(name, text.substr(std::min(text.size(), name.size() + 1)))},
                    {"from", "environment"},
                    {"meaning", launcher ? "set by a launcher" : "unknown to Rondo: is it misspelt?"}});
  }
  return rows;
}

// The file that is in force, or not, and why.
Json tune_json(const std::optional<Settings>& settings) {
  if (!settings) return nullptr;
  const bool found = !settings->tune_file.empty(), ignored = !settings->tune_file_ignored.empty();
  Json tune{{"file", found ? Json(settings->tune_file) : nullptr},
            {"in_force", found && !ignored},
            {"ignored_because", ignored ? Json(settings->tune_file_ignored) : nullptr}};
  return tune;
}

std::string tune_text(const Json& tune) {
  if (tune["file"].is_null()) return "none: `rondo tune` makes one";
  const std::string file = tune["file"];
  return tune["in_force"] ? file
                          : fmt::format("{}, ignored: {}", file, tune["ignored_because"].get<std::string>());
}

Json probes_json(const std::vector<Probe>& probes) {
  Json rows = Json::array();
  for (const Probe& probe : probes)
    rows.push_back({{"name", probe.name},
                    {"used_for", probe.used_for},
                    {"needed", probe.needed},
                    {"works", probe.works()},
                    {"problem", probe.problem}});
  return rows;
}

bool usable(const std::vector<Probe>& probes) {
  return std::all_of(probes.begin(), probes.end(),
                     [](const Probe& probe) { return probe.works() || !probe.needed; });
}

void print_rows(const char* title, const Rows& rows) {
  fmt::print("\n{}\n", paint(title, Style::bold, colour_on(stdout)));
  Table table({{""}, {""}});
  for (const auto& [name, value] : rows) table.add({{name, Style::dim}, value});
  table.print();
}

void print_probes(const std::vector<Probe>& probes) {
  const bool colour = colour_on(stdout);
  const bool good = usable(probes);
  fmt::print("\n{}\n  shared memory (shm): {}\n", paint("Transports", Style::bold, colour),
             good ? paint("usable", Style::green, colour) : paint("not usable here", Style::red, colour));
  Table table({{""}, {""}, {""}});
  for (const Probe& probe : probes)
    table.add({probe.name,
               {probe.works() ? "yes" : "no: " + probe.problem, probe.works()  ? Style::green
                                                                : probe.needed ? Style::red
                                                                               : Style::yellow},
               {probe.used_for, Style::dim}});
  table.print(4);
}

void print_settings(const Json& settings, const Json& tune) {
  fmt::print("\n{}\n", paint("Settings", Style::bold, colour_on(stdout)));
  Table table({{"variable"}, {"value"}, {"from"}, {"meaning"}});
  for (const Json& row : settings) {
    const bool set = row["from"] != "default";
    table.add({row["name"].get<std::string>(),
               {row["value"].get<std::string>(), set ? Style::yellow : Style::plain},
               row["from"].get<std::string>(),
               {row["meaning"].get<std::string>(), Style::dim}});
  }
  table.print();
  if (!tune.is_null()) fmt::print("  tune file: {}\n", tune_text(tune));
}

// A bad variable is shown with all others, and is an error all the same.
void info(bool json) {
  std::optional<Settings> settings;
  std::optional<Error> bad;
  try {
    settings = Settings::from_environment();
  } catch (const Error& error) {
    bad = error;
  }
  const auto probes = probe_shared_memory();
  const Json machine = machine_json(), rows = settings_json(settings), tune = tune_json(settings);
  if (json) {
    Json libraries;
    for (const auto& [name, value] : library_rows()) libraries[name] = value;
    const Json all{{"version", rondo_version()},
                   {"machine", machine},
                   {"transports", {{"shm", {{"usable", usable(probes)}, {"probes", probes_json(probes)}}}}},
                   {"settings", rows},
                   {"tune", tune},
                   {"libraries", libraries}};
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{} {}\n", paint("Rondo", Style::bold, colour_on(stdout)), rondo_version());
    print_rows("Machine", machine_rows(machine));
    print_probes(probes);
    print_settings(rows, tune);
    print_rows("Built with", library_rows());
  }
  if (bad) throw *bad;
}

}  // namespace

void add_info_command(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("info", "Show what this machine allows, and the settings in force");
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  rondo info\n"
      "  rondo info --json\n"
      "  RONDO_ALGO=ring rondo info                see that a setting is understood\n"
      "  taskset -c 0 rondo info                   what is left of the machine there");
  command->callback([json] { info(*json); });
}

}  // namespace rondo
