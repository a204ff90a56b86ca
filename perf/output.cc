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

Json times_json(const Times& times) {
  return {{"time_us", times.median * micro}, {"p50_us", times.median * micro},
          {"p99_us", times.p99 * micro},     {"min_us", times.least * micro},
          {"mean_us", times.mean * micro},   {"first_us", times.first * micro}};
}

}  // namespace

PerfOutput::PerfOutput(const Collective& collective, const PerfOptions& options, int ranks,
                       std::optional<Against> against)
    : collective_(collective),
      options_(options),
      ranks_(ranks),
      against_(std::move(against)),
      table_(collective_, options_, ranks_, against_) {
  if (options.text()) table_.print_head();
}

Json PerfOutput::callee_json(const Case& which, const CalleeMeasured& side) const {
  const Bandwidth width = table_.bandwidth_of(which, side);
  Json json = times_json(side.times);
  json["algbw"] = width.algorithm;
  json["busbw"] = width.bus;
  json["wrong"] = side.wrong ? Json(*side.wrong) : Json(nullptr);
  return json;
}

Json PerfOutput::side_json(const Case& which, const std::optional<Measured>& side) {
  if (!side) return nullptr;
  bus_.push_back(table_.bandwidth_of(which, *side).bus);
  wrong_ += side->wrong.value_or(0);
  Json json = callee_json(which, *side);
  json["iterations"] = side->iterations;
  json["sent_bytes"] = side->sent;
  if (side->other) {
    wrong_of_other_ += side->other->wrong.value_or(0);
    json["nccl"] = callee_json(which, *side->other);
    json["ratio"] = side->other->ratio;
  }
  return json;
}

void PerfOutput::add(const Case& which, const std::optional<Measured>& out_of_place,
                     const std::optional<Measured>& in_place) {
  if (options_.text()) table_.print_row(which, out_of_place, in_place);
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
    if (wrong_of_other_ > 0) fmt::print("# NCCL's               : {} out of bounds\n", wrong_of_other_);
    fmt::print("# Avg bus bandwidth    : {:.4f}\n", mean);
  }
  if (options_.json.empty()) return;
  Json report{{"program", fmt::format("{}_perf", collective_.name)},
              {"version", fmt::format("{}.{}.{}", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH)},
              {"ranks", ranks_},
              {"memory", options_.memory_name()},
              {"inputs", options_.clean ? "clean" : "dirty"},
              {"algorithm", options_.algorithm},
              {"calls_in_an_iteration", options_.calls},
              {"wrong", wrong_},
              {"average_busbw", mean}};
  if (against_)
    report["against"] = {{"library", against_->library},
                         {"version", against_->version},
                         {"left_out", against_->left_out.empty() ? Json(nullptr) : Json(against_->left_out)},
                         {"wrong", wrong_of_other_}};
  report["results"] = rows_;
  write_json(options_.json, report);
}

}  // namespace rondo
