#include "perf/output.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <numeric>

#include "cli/style.h"
#include "src/error.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr double micro = 1e6;

// Four digits that count, as nccl-tests prints times.
std::string number_text(double value) {
  if (value < 10) return fmt::format("{:.3f}", value);
  if (value < 100) return fmt::format("{:.2f}", value);
  return value < 1000 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string wrong_text(const std::optional<std::uint64_t>& wrong) {
  const std::string text = fmt::format("{:>6}", wrong ? std::to_string(*wrong) : "N/A");
  return wrong && *wrong > 0 ? paint(text, Style::red, colour_on(stdout)) : text;
}

std::string red_or_green(const std::string& text, bool good) {
  return paint(text, good ? Style::green : Style::red, colour_on(stdout));
}

void write_json(const std::string& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) fail(ErrorKind::system, "cannot write {}", path);
}

}  // namespace

PerfOutput::PerfOutput(const Collective& collective, const PerfOptions& options, int ranks)
    : collective_(collective), options_(options), ranks_(ranks) {
  if (options.text()) print_head();
}

void PerfOutput::print_head() const {
  fmt::print("# rondo {}.{}.{} {}_perf: {} ranks, {} memory, {} inputs, algorithm {}\n", RONDO_MAJOR,
             RONDO_MINOR, RONDO_PATCH, collective_.name, ranks_, options_.memory_name(),
             options_.clean ? "clean" : "rewritten", options_.algorithm);
  fmt::print("# time: the slowest rank's, median; sent: payload bytes of the rank that sends most\n#\n");
  const std::string side =
      fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "time", "algbw", "busbw", "#wrong", "p99");
  const std::string unit =
      fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "(us)", "(GB/s)", "(GB/s)", "", "(us)");
  fmt::print("# {:>11} {:>13} {:>8} {:>6} {:>5} {:^45} {:>23}\n", "", "", "", "", "", "out-of-place",
             "in-place");
  fmt::print("# {:>11} {:>13} {:>8} {:>6} {:>5}  {}  {}  {:>12}\n", "size", "count", "type", "redop", "root",
             side, side, "sent");
  fmt::print("# {:>11} {:>13} {:>8} {:>6} {:>5}  {}  {}  {:>12}\n", "(B)", "(elements)", "", "", "", unit,
             unit, "(B)");
}

Bandwidth PerfOutput::bandwidth_of(const Case& which, const Measured& side) const {
  return bandwidth(bytes_of(collective_, which, ranks_, options_.root), side.times.median,
                   collective_.bus_factor(ranks_));
}

std::string PerfOutput::side_text(const Case& which, const std::optional<Measured>& side) const {
  if (!side) return fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "N/A", "N/A", "N/A", "N/A", "N/A");
  const Bandwidth width = bandwidth_of(which, *side);
  return fmt::format("{:>9} {:>7.2f} {:>7.2f} {} {:>9}", number_text(side->times.median * micro),
                     width.algorithm, width.bus, wrong_text(side->wrong),
                     number_text(side->times.p99 * micro));
}

void PerfOutput::print_row(const Case& which, const std::optional<Measured>& out_of_place,
                           const std::optional<Measured>& in_place) const {
  fmt::print("  {:>11} {:>13} {:>8} {:>6} {:>5}  {}  {}  {:>12.0f}\n",
             bytes_of(collective_, which, ranks_, options_.root),
             count_of(collective_, which, ranks_, options_.root), perf_name_of(which.type),
             collective_.reduces ? perf_name_of(which.op) : "none", collective_.rooted ? options_.root : -1,
             side_text(which, out_of_place), side_text(which, in_place),
             out_of_place ? out_of_place->sent : 0);
  std::fflush(stdout);
}

Json PerfOutput::side_json(const Case& which, const std::optional<Measured>& side) {
  if (!side) return nullptr;
  const Bandwidth width = bandwidth_of(which, *side);
  bus_.push_back(width.bus);
  wrong_ += side->wrong.value_or(0);
  return {{"time_us", side->times.median * micro},
          {"p50_us", side->times.median * micro},
          {"p99_us", side->times.p99 * micro},
          {"min_us", side->times.least * micro},
          {"mean_us", side->times.mean * micro},
          {"first_us", side->times.first * micro},
          {"iterations", side->iterations},
          {"algbw", width.algorithm},
          {"busbw", width.bus},
          {"wrong", side->wrong ? Json(*side->wrong) : Json(nullptr)},
          {"sent_bytes", side->sent}};
}

void PerfOutput::add(const Case& which, const std::optional<Measured>& out_of_place,
                     const std::optional<Measured>& in_place) {
  if (options_.text()) print_row(which, out_of_place, in_place);
  rows_.push_back({{"bytes", bytes_of(collective_, which, ranks_, options_.root)},
                   {"count", count_of(collective_, which, ranks_, options_.root)},
                   {"type", perf_name_of(which.type)},
                   {"redop", collective_.reduces ? perf_name_of(which.op) : "none"},
                   {"root", collective_.rooted ? options_.root : -1},
                   {"out_of_place", side_json(which, out_of_place)},
                   {"in_place", side_json(which, in_place)}});
}

void PerfOutput::finish() {
  const double sum = std::accumulate(bus_.begin(), bus_.end(), 0.0);
  const double mean = bus_.empty() ? 0 : sum / static_cast<double>(bus_.size());
  if (options_.text()) {
    const std::string verdict = options_.checks == 0 ? "not checked" : wrong_ == 0 ? "OK" : "FAILED";
    fmt::print("# Out of bounds values : {} {}\n", wrong_, red_or_green(verdict, verdict == "OK"));
    fmt::print("# Avg bus bandwidth    : {:.4f}\n", mean);
  }
  if (options_.json.empty()) return;
  write_json(options_.json, {{"program", fmt::format("{}_perf", collective_.name)},
                             {"version", fmt::format("{}.{}.{}", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH)},
                             {"ranks", ranks_},
                             {"memory", options_.memory_name()},
                             {"inputs", options_.clean ? "clean" : "dirty"},
                             {"algorithm", options_.algorithm},
                             {"calls_in_an_iteration", options_.calls},
                             {"wrong", wrong_},
                             {"average_busbw", mean},
                             {"results", rows_}});
}

}  // namespace rondo
