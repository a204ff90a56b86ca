// `rondo tune`: measures this host, and writes what the library and `rondo explain` are to know of it.
#include <fmt/chrono.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "cli/bytes.h"
#include "cli/commands.h"
#include "cli/cpus.h"
#include "cli/exit_status.h"
#include "cli/local_ranks.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/tune_host.h"
#include "models/temporary_file.h"
#include "src/error.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr const char* about =
    "Each number of ranks runs all-reduce, all-gather and reduce-scatter on buffers of malloc and of\n"
    "rondoMemAlloc, on inputs that were just written. First the settings that docs/tuning.md lists are "
    "tried\n"
    "against one another, in turns; the file gets those that were faster than the default in every round, "
    "and by 5 %\n"
    "or more. Then the times are taken with them. Results keep their bits, whatever is chosen.\n"
    "It takes about 4 times --max-size of memory a rank. Nothing else should run meanwhile.\n"
    "\n"
    "The library reads the file where RONDO_TUNE_FILE says, else in the standard place; "
    "RONDO_TUNE_FILE=none\n"
    "leaves it alone. Variables that are set win over it.\n"
    "\n"
    "Examples:\n"
    "  rondo tune                                measure, and write the standard file\n"
    "  rondo tune --ranks 8 --seconds 60         for 8 ranks, with more patience\n"
    "  rondo tune --output here.json             another file; RONDO_TUNE_FILE=here.json puts it in force";

constexpr std::size_t least_size = std::size_t{64} << 10, most_size = std::size_t{4} << 30;

struct Arguments {
  std::vector<int> ranks;
  double seconds = 30;
  std::size_t most_bytes = 64 << 20;
  std::string output;
  bool json = false;
};

// 2, 4 and 8, as far as each rank has a core, but 4 anyway: who debugs runs more ranks than cores.
std::vector<int> usual_rank_counts() {
  std::vector<int> counts{2, 4};
  if (usable_cpus() >= 8) counts.push_back(8);
  return counts;
}

fs::path output_path(const Arguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  const char* named = std::getenv("RONDO_TUNE_FILE");
  if (named != nullptr && *named != '\0' && std::string_view(named) != "none") return named;
  const fs::path standard = standard_tune_file();
  if (standard.empty())
    fail(ErrorKind::invalid_argument, "neither HOME nor XDG_CONFIG_HOME is set: expected --output FILE");
  return standard;
}

// Before a minute is spent: makes the folder, and looks whether it takes files.
void need_writable(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(ErrorKind::invalid_argument, "--output {}: cannot make its folder: {}", path.string(),
         error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0 || fs::is_directory(path))
    fail(ErrorKind::invalid_argument, "--output {}: cannot write there: {}", path.string(),
         fs::is_directory(path) ? "it is a folder" : std::strerror(errno));
}

void write(const fs::path& path, const std::string& text) {
  TemporaryFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.rename();
}

TuneFile file_of(const TuneResult& result) {
  TuneFile file{rondo_version(),
                fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr))),
                this_machine(),
                {},
                result.times};
  for (const Tuned& tuned : result.settings)
    if (tuned.choice.value != tuned.standard) file.settings[tuned.variable] = tuned.choice.value;
  return file;
}

void print_settings(const TuneResult& result) {
  Table table({{"setting"}, number_column("default"), number_column("chosen"), {""}});
  for (const Tuned& tuned : result.settings) {
    const bool moved = tuned.choice.value != tuned.standard;
    table.add(
        {tuned.variable,
         tuned.standard,
         {grouped(tuned.choice.value), moved ? Style::green : Style::plain},
         {moved ? fmt::format("{:.0f} % faster where it makes a difference", (tuned.choice.gain - 1) * 100)
                : "nothing was clearly faster",
          Style::dim}});
  }
  table.print();
}

// All that was measured on so many ranks: a row for each size.
void print_times(const TuneResult& result, int ranks) {
  std::vector<Column> columns{number_column("bytes")};
  std::set<std::size_t> sizes;
  std::vector<const TunedTimes*> shown;
  for (const TunedTimes& times : result.times) {
    if (times.ranks != ranks) continue;
    shown.push_back(&times);
    columns.push_back(number_column(fmt::format("{}, {}", times.collective, times.buffers)));
    for (const auto& [bytes, time] : times.microseconds) sizes.insert(bytes);
  }
  Table table(columns);
  for (const std::size_t bytes : sizes) {
    std::vector<Cell> cells{bytes};
    for (const TunedTimes* times : shown) cells.emplace_back(time_text(times->microseconds.at(bytes)));
    table.add(std::move(cells));
  }
  fmt::print("\n{} ranks, microseconds, f32\n", ranks);
  table.print();
}

void print(const TuneResult& result, const TunePlan& plan, const fs::path& path) {
  print_settings(result);
  for (const int ranks : plan.ranks) print_times(result, ranks);
  fmt::print("\nWritten to {}. `rondo info` shows whether it is in force, `rondo explain` uses its times.\n",
             path.string());
}

void run_rank(Communicator& world, const TunePlan& plan, const fs::path& path, bool json) {
  std::optional<ProgressBar> bar;
  if (world.rank() == 0) bar.emplace("tune", tune_step_count(plan));
  const TuneResult result = tune_host(world, plan, [&] {
    if (bar) bar->advance();
  });
  if (!bar) return;
  bar.reset();
  const std::string text = file_of(result).text();
  write(path, text);
  if (json)
    fmt::print("{}", text);
  else
    print(result, plan, path);
}

void warn_of_load() {
  double load = 0;
  if (::getloadavg(&load, 1) == 1 && load > usable_cpus() / 2.0)
    fmt::print(stderr, "rondo: the machine is busy (load {:.1f}): expect times that are too long\n", load);
}

void tune(const Arguments& arguments) {
  if (arguments.most_bytes < least_size || arguments.most_bytes > most_size)
    fail(ErrorKind::invalid_argument, "--max-size {}: expected 64K to 4G", arguments.most_bytes);
  TunePlan plan{arguments.ranks.empty() ? usual_rank_counts() : arguments.ranks, arguments.most_bytes,
                arguments.seconds};
  std::sort(plan.ranks.begin(), plan.ranks.end());
  plan.ranks.erase(std::unique(plan.ranks.begin(), plan.ranks.end()), plan.ranks.end());
  const fs::path path = output_path(arguments);
  need_writable(path);
  warn_of_load();
  // Whatever was tuned or set before: everything is tried against the defaults.
  CommunicatorOptions options{Settings::from_environment_alone(), "tune"};
  const Settings standard;
  options.settings.algorithm = standard.algorithm;
  for (const Variable& variable : variables())
    if (variable.tuned != nullptr) options.settings.*variable.tuned = standard.*variable.tuned;
  finish_with(run_local_ranks(plan.ranks.back(), options,
                              [&](Communicator& world) { run_rank(world, plan, path, arguments.json); }));
}

}  // namespace

void add_tune_command(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("tune", "Measure this host, for the library and for rondo explain");
  const auto quiet = [](CLI::Validator validator) { return validator.description(""); };
  command
      ->add_option("-n,--ranks", arguments->ranks,
                   "Numbers of ranks, such as 2,4 [2,4, and 8 where there are cores]")
      ->delimiter(',')
      ->check(quiet(CLI::Range(2, 64)))
      ->type_name("N,...");
  command->add_option("--seconds", arguments->seconds, "About how long it may take [30]")
      ->check(quiet(CLI::Range(0.1, 3600.0)))
      ->type_name("S");
  command
      ->add_option_function<std::string>(
          "--max-size", [arguments](const std::string& text) { arguments->most_bytes = parse_bytes(text); },
          "The largest buffer, 64K or more [64M]")
      ->type_name("SIZE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Where to write it [RONDO_TUNE_FILE, else the user's rondo/tune.json]")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "Print what was written instead of tables");
  command->footer(about);
  command->callback([arguments] { tune(*arguments); });
}

}  // namespace rondo
