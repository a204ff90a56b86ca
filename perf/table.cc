#include "perf/table.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/style.h"

namespace rondo {
namespace {

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

std::string row_head(const char* size, const char* count, const char* type, const char* op,
                     const char* root) {
  return fmt::format("# {:>11} {:>13} {:>8} {:>6} {:>5}", size, count, type, op, root);
}

}  // namespace

void PerfTable::print_head() const {
  fmt::print("# rondo {}.{}.{} {}_perf: {} ranks, {} memory, {} inputs, algorithm {}\n", RONDO_MAJOR,
             RONDO_MINOR, RONDO_PATCH, collective_.name, ranks_, options_.memory_name(),
             options_.clean ? "clean" : "rewritten", options_.algorithm);
  if (against_)
    fmt::print("# against NCCL {}, {}{}{}\n", against_->version, against_->library,
               is_compared() ? "" : ", left out: ", against_->left_out);
  fmt::print("# time: the slowest rank's, median; sent: payload bytes of the rank that sends most\n");
  const std::string titles = row_head("size", "count", "type", "redop", "root"),
                    units = row_head("(B)", "(elements)", "", "", ""), nothing = row_head("", "", "", "", "");
  if (is_compared()) {
    fmt::print("# ratio: NCCL's time to Rondo's, median of the rounds\n#\n");
    const std::string side = fmt::format("{:>9} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong"),
                      unit = fmt::format("{:>9} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
    fmt::print("{} {:>12}  {:^32}  {:^32}\n", nothing, "", "Rondo", "NCCL");
    fmt::print("{} {:>12}  {}  {} {:>7}  {:>12}\n", titles, "place", side, side, "ratio", "sent");
    fmt::print("{} {:>12}  {}  {} {:>7}  {:>12}\n", units, "", unit, unit, "", "(B)");
    return;
  }
  const std::string side =
      fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "time", "algbw", "busbw", "#wrong", "p99");
  const std::string unit =
      fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "(us)", "(GB/s)", "(GB/s)", "", "(us)");
  fmt::print("#\n{} {:^45} {:>23}\n", nothing, "out-of-place", "in-place");
  fmt::print("{}  {}  {}  {:>12}\n", titles, side, side, "sent");
  fmt::print("{}  {}  {}  {:>12}\n", units, unit, unit, "(B)");
}

Bandwidth PerfTable::bandwidth_of(const Case& which, const CalleeMeasured& side) const {
  return bandwidth(bytes_of(collective_, which, ranks_, options_.root), side.times.median,
                   collective_.bus_factor(ranks_));
}

std::string PerfTable::start_of_row(const Case& which) const {
  return fmt::format("  {:>11} {:>13} {:>8} {:>6} {:>5}", bytes_of(collective_, which, ranks_, options_.root),
                     count_of(collective_, which, ranks_, options_.root), perf_name_of(which.type),
                     collective_.reduces ? perf_name_of(which.op) : "none",
                     collective_.rooted ? options_.root : -1);
}

std::string PerfTable::callee_text(const Case& which, const CalleeMeasured& side) const {
  const Bandwidth width = bandwidth_of(which, side);
  return fmt::format("{:>9} {:>7.2f} {:>7.2f} {}", number_text(side.times.median * micro), width.algorithm,
                     width.bus, wrong_text(side.wrong));
}

std::string PerfTable::side_text(const Case& which, const std::optional<Measured>& side) const {
  if (!side) return fmt::format("{:>9} {:>7} {:>7} {:>6} {:>9}", "N/A", "N/A", "N/A", "N/A", "N/A");
  return fmt::format("{} {:>9}", callee_text(which, *side), number_text(side->times.p99 * micro));
}

void PerfTable::print_compared(const Case& which, const char* place,
                               const std::optional<Measured>& side) const {
  if (!side) return;
  fmt::print("{} {:>12}  {}  {} {:>7.2f}  {:>12.0f}\n", start_of_row(which), place, callee_text(which, *side),
             callee_text(which, *side->other), side->other->ratio, side->sent);
}

void PerfTable::print_row(const Case& which, const std::optional<Measured>& out_of_place,
                          const std::optional<Measured>& in_place) const {
  if (is_compared()) {
    print_compared(which, "out-of-place", out_of_place);
    print_compared(which, "in-place", in_place);
  } else {
    fmt::print("{}  {}  {}  {:>12.0f}\n", start_of_row(which), side_text(which, out_of_place),
               side_text(which, in_place), out_of_place ? out_of_place->sent : 0);
  }
  std::fflush(stdout);
}

}  // namespace rondo
