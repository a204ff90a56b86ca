// `rondo tp profile`: where the time goes in attention, FFN and backward, as the sequence grows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/device_option.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/tp.h"
#include "src/calls.h"
#include "src/gather_bytes.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* about =
    "Each segment is run --repeats times, all ranks starting together. A time is the median of its repeats, "
    "of\n"
    "the rank whose median is the largest. Local time leaves out what is spent in collectives, where ranks "
    "also\n"
    "wait for one another; on a GPU it is not known, since collectives stand on its stream like all else. "
    "Exponents\n"
    "are slopes of log(time) over log(tokens), by least squares.\n"
    "\n"
    "Examples:\n"
    "  rondo tp profile\n"
    "  rondo tp profile --ranks 2 --seqs 256,512,1024 --repeats 9\n"
    "  rondo tp profile --seqs 512 --algo ring --json";

struct ProfileOptions : TpOptions {
  std::vector<std::size_t> sequences{128, 256, 512};
  std::size_t repeats = 7;
};

enum Segment : std::size_t { attention, ffn, backward, segment_count };
constexpr std::array<const char*, segment_count> segment_names{"attention", "FFN", "backward"};

// Milliseconds.
struct Time {
  double whole = 0.0;
  std::optional<double> local;  // outside collectives; nothing on a device
};
using Times = std::array<Time, segment_count>;

struct Row {
  std::size_t sequence;
  Times times;
};

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

// The times of one segment on this rank.
class Samples {
 public:
  template <typename Work>
  void measure(TensorParallel& parallel, Work work) {
    parallel.communicator().run(barrier_call());
    const auto in_calls = parallel.communication_time();
    const Clock::time_point start = Clock::now();
    work();
    parallel.compute().finish();
    const Clock::duration whole = Clock::now() - start;
    whole_.push_back(milliseconds(whole));
    local_.push_back(milliseconds(whole - (parallel.communication_time() - in_calls)));
  }

  Time medians(bool local_is_known) const {
    return {median(whole_), local_is_known ? std::optional(median(local_)) : std::nullopt};
  }

 private:
  std::vector<double> whole_, local_;
};

// Collective: the largest of all ranks' times.
void take_slowest(Communicator& communicator, Times& times) {
  std::array<double, 2 * segment_count> values{};
  for (std::size_t segment = 0; segment < segment_count; ++segment) {
    values[2 * segment] = times[segment].whole;
    values[2 * segment + 1] = times[segment].local.value_or(0.0);
  }
  const LedgerScope scope(communicator.ledger(), report_scope);
  communicator.run(all_reduce_call({communicator.rank(), communicator.size()}, values.data(), values.data(),
                                   values.size(), DataType::f64, {ReduceOp::max}));
  for (std::size_t segment = 0; segment < segment_count; ++segment) {
    times[segment].whole = values[2 * segment];
    if (times[segment].local) times[segment].local = values[2 * segment + 1];
  }
}

Times profile(Communicator& communicator, const MegatronConfig& config, Compute& compute, std::size_t repeats,
              ProgressBar* bar) {
  check(config, communicator.size());
  TensorParallel parallel(communicator, config.conjugates, compute);
  MegatronBlock block(parallel, config, generated_shard(config, 0, communicator.rank(), communicator.size()));
  std::vector<float> gradient(config.elements());
  mean_loss(gradient, gradient);  // the same whatever the output
  const Values x = copy_to(compute, generated_input(config, "x")), dout = copy_to(compute, gradient);
  Values out(compute, config.elements()), dx(compute, config.elements());
  // The first run touches all memory.
  block.forward(x, out);
  block.backward(dout, dx);
  std::array<Samples, segment_count> samples;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    samples[attention].measure(parallel, [&] { block.forward_attention(x); });
    samples[ffn].measure(parallel, [&] { block.forward_ffn(out); });
    samples[backward].measure(parallel, [&] { block.backward(dout, dx); });
    if (bar != nullptr) bar->advance();
  }
  Times times;
  for (std::size_t segment = 0; segment < segment_count; ++segment)
    times[segment] = samples[segment].medians(&compute == &cpu_compute());
  take_slowest(communicator, times);
  return times;
}

std::optional<double> whole_of(const Time& time) { return time.whole; }
std::optional<double> local_of(const Time& time) { return time.local; }

// The slope of log(time) over log(sequence); nothing where there are not two sequences, or no times.
std::optional<double> exponent(const std::vector<Row>& rows, Segment segment,
                               std::optional<double> (*time_of)(const Time&)) {
  double n = 0.0, sum_x = 0.0, sum_y = 0.0, sum_xx = 0.0, sum_xy = 0.0;
  for (const Row& row : rows) {
    const std::optional<double> time = time_of(row.times[segment]);
    if (!time) return std::nullopt;
    const double x = std::log(static_cast<double>(row.sequence)), y = std::log(*time);
    n += 1.0, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
  }
  const double spread = n * sum_xx - sum_x * sum_x;
  if (!(spread > 1e-9)) return std::nullopt;
  return (n * sum_xy - sum_x * sum_y) / spread;
}

// Something that the document says, and what was measured.
struct Observation {
  std::string said;
  std::string found;
  bool holds;
};

bool within(double value, double low, double high) { return value >= low && value <= high; }

std::vector<Observation> observations(const std::vector<Row>& rows) {
  const Row& longest = *std::max_element(rows.begin(), rows.end(),
                                         [](const Row& a, const Row& b) { return a.sequence < b.sequence; });
  const Times& times = longest.times;
  const double back = times[backward].whole / (times[attention].whole + times[ffn].whole);
  const double parts = times[ffn].whole / times[attention].whole;
  std::vector<Observation> all{
      {"backward takes about as long as the forward parts together",
       fmt::format("{:.2f} times as long at {} tokens (about: 0.8 to 1.25)", back, longest.sequence),
       within(back, 0.8, 1.25)},
      {"FFN and attention are of the same order",
       fmt::format("FFN takes {:.2f} times as long as attention at {} tokens (same order: 1/3 to 3)", parts,
                   longest.sequence),
       within(parts, 1.0 / 3.0, 3.0)}};
  const auto growth = [&](const char* said, Segment segment, double power) {
    const auto whole = exponent(rows, segment, whole_of), local = exponent(rows, segment, local_of);
    if (!whole) return;
    const auto is_so = [&](double value) { return within(value, power - 0.25, power + 0.25); };
    const std::string without = local ? fmt::format(", without communication {:.2f}", *local) : "";
    all.push_back({said,
                   fmt::format("exponent {:.2f}{} (this power: {} to {}{})", *whole, without, power - 0.25,
                               power + 0.25, local ? ", either way" : ""),
                   is_so(*whole) && (!local || is_so(*local))});
  };
  growth("attention grows with the square of the tokens", attention, 2.0);
  growth("FFN grows linearly with the tokens", ffn, 1.0);
  return all;
}

std::string text_of(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

void print_table(const std::vector<Row>& rows) {
  std::vector<Column> columns{{"tokens"}};
  for (const char* name : segment_names) {
    columns.push_back(number_column(fmt::format("{}, ms", name)));
    columns.push_back(number_column("local"));
  }
  Table table(std::move(columns));
  for (const Row& row : rows) {
    std::vector<Cell> cells{Cell(row.sequence)};
    for (const Time& time : row.times) {
      cells.push_back(text_of(time.whole));
      cells.push_back(text_of(time.local));
    }
    table.add(std::move(cells));
  }
  table.add_rule();
  std::vector<Cell> cells{"exponent"};
  for (std::size_t segment = 0; segment < segment_count; ++segment) {
    for (const auto time_of : {whole_of, local_of})
      cells.push_back(text_of(exponent(rows, static_cast<Segment>(segment), time_of)));
  }
  table.add(std::move(cells));
  table.print();
}

void print_text(const ProfileOptions& options, const Communicator& communicator,
                const std::vector<Row>& rows) {
  const std::string sequences = fmt::format("{}", fmt::join(options.sequences, ", "));
  fmt::print("Megatron profile: {}\nMedians of {} runs, slowest rank{}:\n",
             describe(options.config(), communicator.size(), sequences), options.repeats,
             communicator.oversubscribed() ? "; there are more ranks than cores, so they take turns" : "");
  print_table(rows);
  fmt::print("\nWhat the document observed, and whether it is so here:\n");
  for (const Observation& observation : observations(rows))
    fmt::print("  {:<8}  {}: {}\n", observation.holds ? "true" : "not here", observation.said,
               observation.found);
}

void print_json(const ProfileOptions& options, int ranks, const std::vector<Row>& rows) {
  Json times = Json::array(), exponents = Json::object(), observed = Json::array();
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  for (const Row& row : rows) {
    Json one{{"tokens", row.sequence}};
    for (std::size_t segment = 0; segment < segment_count; ++segment)
      one[segment_names[segment]] = {{"ms", row.times[segment].whole},
                                     {"local_ms", number(row.times[segment].local)}};
    times.push_back(std::move(one));
  }
  for (std::size_t segment = 0; segment < segment_count; ++segment)
    exponents[segment_names[segment]] = {
        {"whole", number(exponent(rows, static_cast<Segment>(segment), whole_of))},
        {"local", number(exponent(rows, static_cast<Segment>(segment), local_of))}};
  for (const Observation& observation : observations(rows))
    observed.push_back(
        {{"said", observation.said}, {"found", observation.found}, {"holds", observation.holds}});
  fmt::print("{}\n", Json{{"ranks", ranks},
                          {"batch", options.sizes.batch},
                          {"hidden", options.sizes.hidden},
                          {"ffn", options.sizes.ffn_width()},
                          {"heads", options.sizes.heads},
                          {"repeats", options.repeats},
                          {"device", options.device},
                          {"times", times},
                          {"exponents", exponents},
                          {"observations", observed}}
                         .dump(2));
}

void run_profile(Communicator& communicator, const ProfileOptions& options) {
  const ChosenCompute compute(options.device, communicator);
  std::vector<Row> rows;
  {
    std::optional<ProgressBar> bar;
    if (communicator.rank() == 0) bar.emplace("profiling", options.sequences.size() * options.repeats);
    for (const std::size_t sequence : options.sequences) {
      MegatronConfig config = options.config();
      config.sequence = sequence;
      rows.push_back(
          {sequence, profile(communicator, config, compute.get(), options.repeats, bar ? &*bar : nullptr)});
    }
  }
  if (communicator.rank() != 0) return;
  options.json ? print_json(options, communicator.size(), rows) : print_text(options, communicator, rows);
}

}  // namespace

void add_tp_profile_command(CLI::App& app) {
  const auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand("profile", "Time attention, FFN and backward as the sequence grows");
  add_tp_options(*command, *options, SequenceOption::no);
  command->add_option("--seqs", options->sequences, "Tokens a sample, such as 128,256,512")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Sizes");
  command->add_option("--repeats", options->repeats, "Runs of each segment")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->footer(about);
  command->callback([options] {
    run_tp(*options, [options](Communicator& communicator) { run_profile(communicator, *options); });
  });
}

}  // namespace rondo
