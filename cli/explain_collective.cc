// A collective, in a summary and in small numbers.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "cli/explain_way.h"
#include "cli/ring_play.h"
#include "cli/table.h"
#include "src/collective.h"
#include "src/error.h"
#include "src/ledger.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::uint64_t> sent_by_rank(const Call& call, Algorithm algorithm, int ranks) {
  std::vector<std::uint64_t> sent;
  for (int rank = 0; rank < ranks; ++rank)
    sent.push_back(sum_of(expected_payload(call, algorithm, rank, ranks)));
  return sent;
}

bool is_power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

int step_count(CallKind kind, Algorithm algorithm, int ranks) {
  if (ranks == 1) return 0;
  if (algorithm == Algorithm::slots || algorithm == Algorithm::one_shot) return 1;
  if (algorithm == Algorithm::doubling)
    return std::bit_width(static_cast<unsigned>(ranks)) - 1 + (is_power_of_two(ranks) ? 0 : 2);
  if (algorithm == Algorithm::tree) return std::bit_width(static_cast<unsigned>(ranks - 1));
  if (algorithm == Algorithm::direct) return kind == CallKind::all_reduce ? 2 : 1;
  return (kind == CallKind::all_reduce ? 2 : 1) * (ranks - 1);
}

const char* step_formula(CallKind kind, Algorithm algorithm, int ranks) {
  if (algorithm == Algorithm::slots || algorithm == Algorithm::one_shot) return "1";
  if (algorithm == Algorithm::doubling) return is_power_of_two(ranks) ? "log2 N" : "⌊log2 N⌋ + 2";
  if (algorithm == Algorithm::tree) return "⌈log2 N⌉";
  if (algorithm == Algorithm::direct) return kind == CallKind::all_reduce ? "2" : "1";
  return kind == CallKind::all_reduce ? "2(N-1)" : "N-1";
}

// Null where there is none that holds for every rank.
const char* byte_formula(CallKind kind, Algorithm algorithm, int ranks) {
  if (algorithm == Algorithm::doubling) {
    if (!is_power_of_two(ranks)) return nullptr;
    if (kind == CallKind::all_reduce) return "(N-1) · S";
    return kind == CallKind::all_gather ? "(N-1)/N · S" : "log2 N / 2 · S";
  }
  switch (kind) {
    case CallKind::all_reduce:
      return algorithm == Algorithm::slots || algorithm == Algorithm::one_shot ? "(N-1) · S" : "2(N-1)/N · S";
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
      return "(N-1)/N · S";
    case CallKind::broadcast:
      if (algorithm == Algorithm::tree) return "S to each rank below, the root ⌈log2 N⌉ · S";
      return algorithm == Algorithm::ring ? "S, the last of the chain 0" : "root (N-1) · S, others 0";
    case CallKind::reduce:
      return "S, the root 0";
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      break;
  }
  return "?";
}

const char* meaning_of_s(CallKind kind) {
  if (kind == CallKind::all_gather) return "the gathered output: N shares";
  if (kind == CallKind::reduce_scatter) return "the input of one rank: N shares";
  return "the buffer of one rank";
}

std::string reason(const CollectiveQuestion& question, Algorithm picked) {
  if (question.ranks == 1) return "one rank has nobody to send to";
  if (question.settings.algorithm == picked) return fmt::format("RONDO_ALGO={} asks for it", name_of(picked));
  if (question.kind == CallKind::broadcast && picked == Algorithm::direct)
    return "every rank reads the root's memory itself";
  if (question.kind == CallKind::broadcast)
    return "a chain spreads the copies over all ranks, where direct leaves them all to the root";
  if (question.kind == CallKind::all_gather)
    return "each share goes straight to where it belongs: one step instead of N-1, for the same bytes";
  return "whoever adds up sees every rank's numbers at once: ranks 0 to N-1 in order, rounded once";
}

std::optional<TuneFile> file_in_force(const Settings& settings) {
  if (settings.tune_file.empty() || !settings.tune_file_ignored.empty()) return std::nullopt;
  return read_tune_file(settings.tune_file);
}

// A range where the ranks' numbers differ.
std::string range_text(const std::vector<std::uint64_t>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == *high ? grouped(*low) : grouped(*low) + " to " + grouped(*high);
}

class Story {
 public:
  explicit Story(const CollectiveQuestion& question)
      : question_(question),
        call_(describe(question)),
        way_(explain_way(question, call_)),
        // On windows even a broadcast goes straight from its root.
        picked_(way_.algorithm == Algorithm::windows
                    ? Algorithm::direct
                    : choose_algorithm(question.kind, question.settings.algorithm)),
        time_(expected_time(question, call_, file_in_force(question.settings))),
        drawn_(question.draw == Algorithm::automatic ? Algorithm::ring : question.draw) {}

  void print() const {
    print_head();
    print_costs();
    if (question_.ranks > most_drawn_ranks) {
      fmt::print("\n  The steps are drawn for up to {} ranks: try -n 4.\n", most_drawn_ranks);
      return;
    }
    print_play(checked_play());
  }

  Json json() const {
    Json all{{"collective", name_of(question_.kind)},
             {"ranks", question_.ranks},
             {"count", question_.count},
             {"type", name_of(question_.type)},
             {"buffer_bytes", call_.all_bytes()},
             {"buffers", question_.on_device ? "device" : name_of(question_.buffers)},
             {"memory", name_of(memory_of(question_, call_))},
             {"picked", name_of(picked_)},
             {"because", reason(question_, picked_)},
             {"way", way_.name},
             {"way_because", way_.reason},
             {"stores", way_.stores.empty() ? Json(nullptr) : Json(way_.stores)},
             {"time", {{"microseconds", nullptr}, {"basis", time_.basis}}}};
    if (time_.microseconds) all["time"]["microseconds"] = *time_.microseconds;
    if (has_root(question_.kind)) all["root"] = question_.root;
    for (const Algorithm algorithm : algorithms()) {
      const char* const formula = byte_formula(question_.kind, algorithm, question_.ranks);
      all["algorithms"][name_of(algorithm)] = {
          {"steps", step_count(question_.kind, algorithm, question_.ranks)},
          {"formula", formula == nullptr ? Json(nullptr) : Json(formula)},
          {"sent_by_rank", sent_by_rank(call_, algorithm, question_.ranks)}};
    }
    if (question_.ranks <= most_drawn_ranks) all["drawn"] = play_json(checked_play());
    return all;
  }

 private:
  const char* buffers_text() const {
    if (question_.on_device) return "buffers on a device";
    return question_.buffers == BufferKind::rondo ? "buffers of rondoMemAlloc" : "buffers of malloc";
  }

  void print_head() const {
    fmt::print("{}{} of {} {} on {} rank{}{}, {}\n\n", paint(name_of(question_.kind), Style::bold, colour_),
               adds() ? " (sum)" : "", grouped(question_.count), name_of(question_.type), question_.ranks,
               question_.ranks == 1 ? "" : "s",
               has_root(question_.kind) ? fmt::format(", root {}", question_.root) : "", buffers_text());
    fmt::print("  S       {} bytes: {}\n", grouped(call_.all_bytes()), meaning_of_s(question_.kind));
    fmt::print("  picked  {}: {}\n", paint(name_of(picked_), Style::green, colour_),
               reason(question_, picked_));
    if (memory_of(question_, call_) == Memory::device_staged)
      fmt::print("  memory  {}: its stream copies inputs to memory of rondoMemAlloc, and outputs back ({})\n",
                 paint(name_of(Memory::device_staged), Style::green, colour_), why_staged(question_, call_));
    fmt::print("  way     {}: {}\n", paint(way_.name, Style::green, colour_), way_.reason);
    if (!way_.stores.empty()) fmt::print("  stores  {}\n", way_.stores);
    const std::string time =
        time_.microseconds ? paint(time_text(*time_.microseconds) + " us", Style::green, colour_) + ": " : "";
    fmt::print("  time    {}{}\n\n", time, time_.basis);
  }

  // Slots have bytes of their own. The other ways move those of direct.
  std::vector<Algorithm> algorithms() const {
    std::vector<Algorithm> all{Algorithm::ring, Algorithm::direct};
    for (const Algorithm one : {Algorithm::slots, Algorithm::one_shot, Algorithm::doubling, Algorithm::tree})
      if (way_.algorithm == one) all.push_back(one);
    return all;
  }

  void print_costs() const {
    Table table({{""},
                 number_column("steps"),
                 {""},
                 number_column("bytes a rank sends"),
                 {""},
                 number_column("all ranks")});
    const Algorithm taken = way_.algorithm == Algorithm::slots ? Algorithm::slots : picked_;
    for (const Algorithm algorithm : algorithms()) {
      const auto sent = sent_by_rank(call_, algorithm, question_.ranks);
      const char* const formula = byte_formula(question_.kind, algorithm, question_.ranks);
      const bool exact = has_root(question_.kind) || equal_chunks();
      std::uint64_t total = 0;
      for (const std::uint64_t bytes : sent) total += bytes;
      table.add({{name_of(algorithm), algorithm == taken ? Style::green : Style::plain},
                 step_count(question_.kind, algorithm, question_.ranks),
                 {fmt::format("= {}", step_formula(question_.kind, algorithm, question_.ranks)), Style::dim},
                 range_text(sent),
                 {formula == nullptr ? "" : fmt::format("{} {}", exact ? "=" : "≈", formula), Style::dim},
                 total});
    }
    table.print();
    const std::size_t longer = question_.count % static_cast<std::size_t>(question_.ranks);
    if (!has_root(question_.kind) && !equal_chunks())
      fmt::print("  {} elements do not divide by {}: {} one more.\n", grouped(question_.count),
                 question_.ranks,
                 longer == 1 ? "the first chunk has" : fmt::format("the first {} chunks have", longer));
  }

  bool equal_chunks() const {
    return std::all_of(call_.chunk_bytes.begin(), call_.chunk_bytes.end(),
                       [&](std::size_t bytes) { return bytes == call_.chunk_bytes.front(); });
  }

  Play checked_play() const {
    Play result = play(question_.kind, drawn_, question_.ranks, question_.root);
    if (!result.correct)
      fail(ErrorKind::internal, "the {} of {} on {} ranks does not end with the right numbers",
           name_of(drawn_), name_of(question_.kind), question_.ranks);
    return result;
  }

  void print_play(const Play& drawn) const {
    const bool ring = drawn_ == Algorithm::ring;
    fmt::print("\n{}\n", paint(fmt::format("The {}, in small numbers", ring ? "ring" : "direct algorithm"),
                               Style::bold, colour_));
    fmt::print("  {}\n", digits_text());
    if (ring && drawn.ranks > 1) fmt::print("  {}\n", path_text());
    for (std::size_t f = 0; f < drawn.frames.size(); ++f) print_frame(drawn, f);
    print_end(drawn);
  }

  std::string digits_text() const {
    if (question_.kind == CallKind::broadcast)
      return fmt::format("Rank {} has one chunk, which all are to have.", question_.root);
    if (question_.kind == CallKind::all_gather)
      return "Rank r has chunk r, and all ranks are to have all of them.";
    if (question_.kind == CallKind::reduce)
      return "Rank r contributes the digit 1 at place r (1, 10, 100, ...): a sum shows who is in it.";
    return "Rank r's chunk c is the digit c+1 at place r: the digits of a sum show which ranks are in it.";
  }

  // The ring, or the chain that is left of it when it is cut open.
  std::string path_text() const {
    const int size = question_.ranks,
              first = question_.kind == CallKind::reduce ? question_.root + 1 : question_.root;
    std::string text = "Path: ";
    for (int i = 0; i < size; ++i) text += fmt::format("{}{}", i == 0 ? "" : " → ", (first + i) % size);
    if (!has_root(question_.kind)) text += fmt::format(" → {}", first);
    return text;
  }

  std::string title(const Play& drawn, std::size_t frame) const {
    if (frame == 0) return "Start";
    const bool reducing =
        adds() && (question_.kind != CallKind::all_reduce || frame <= drawn.frames.size() / 2);
    const char* doing = reducing                    ? "what comes in is added to one's own"
                        : drawn_ == Algorithm::ring ? "what comes in is kept and passed on"
                                                    : "what comes in is kept";
    const char* part = question_.kind != CallKind::all_reduce ? ""
                       : reducing                             ? "reduce-scatter: "
                                                              : "all-gather: ";
    return fmt::format("Step {} of {}   {}{}", frame, drawn.frames.size() - 1, part, doing);
  }

  void print_frame(const Play& drawn, std::size_t number) const {
    const Frame& frame = drawn.frames[number];
    fmt::print("\n  {}\n", paint(title(drawn, number), Style::bold, colour_));
    std::vector<Column> columns{{""}};
    for (int chunk = 0; chunk < drawn.chunks; ++chunk)
      columns.push_back(number_column(drawn.chunks == 1 ? "chunk" : fmt::format("chunk {}", chunk)));
    columns.push_back({number == 0 ? "" : " has just sent"});
    Table table(columns);
    for (int rank = 0; rank < drawn.ranks; ++rank) {
      std::vector<Cell> cells{fmt::format("rank {}", rank)};
      for (const HeldChunk& chunk : frame.holds[static_cast<std::size_t>(rank)])
        cells.push_back(cell_of(chunk));
      cells.push_back({sends_text(frame, rank, drawn.chunks == 1), Style::cyan});
      table.add(std::move(cells));
    }
    table.print(4);
  }

  static Cell cell_of(const HeldChunk& chunk) {
    if (!chunk.value) return {"·", Style::dim};
    const std::string text =
        fmt::format("{}{}", chunk.arrived ? (chunk.whole ? "▸" : "+") : "", *chunk.value);
    if (chunk.whole) return {text, chunk.arrived ? Style::green : Style::plain};
    return {text, chunk.arrived ? Style::yellow : Style::dim};
  }

  static std::string sends_text(const Frame& frame, int rank, bool one_chunk) {
    std::string text;
    for (const Transfer& transfer : frame.transfers) {
      if (transfer.from != rank) continue;
      text += text.empty() ? " " : ", ";
      text += one_chunk ? fmt::format("{} → {}", transfer.value, transfer.to)
                        : fmt::format("c{} {} → {}", transfer.chunk, transfer.value, transfer.to);
    }
    return text;
  }

  void print_end(const Play& drawn) const {
    fmt::print("\n");
    if (drawn.ranks > 1) fmt::print("  {}\n", legend(drawn));
    if (drawn.ranks > 2 && has_root(question_.kind) && drawn_ == Algorithm::ring)
      fmt::print(
          "  A real call cuts the chunk into slices that follow one another, so that all links are busy at "
          "once.\n");
    std::string values;
    for (const auto& value : results_of(drawn)) values += fmt::format(" {}", value);
    fmt::print("  {}:{}, the right numbers on every rank that gets them\n",
               paint("checked", Style::green, colour_), values);
  }

  std::string legend(const Play& drawn) const {
    std::string text;
    if (adds() && drawn_ == Algorithm::ring)
      text += paint("+", Style::yellow, colour_) + " came in and grew here   ";
    text += paint("▸", Style::green, colour_) + (adds() ? " came in and is a result" : " came in");
    if (drawn.chunks == 1) return text;
    const Transfer& one = drawn.frames[1].transfers.front();
    return text + fmt::format("   c{0} {1} → {2}: chunk {0}, of value {1}, to rank {2}", one.chunk, one.value,
                              one.to);
  }

  bool adds() const {
    return question_.kind != CallKind::all_gather && question_.kind != CallKind::broadcast;
  }

  // One for each chunk, from whichever rank gets it.
  static std::vector<std::uint64_t> results_of(const Play& drawn) {
    std::vector<std::uint64_t> values;
    for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(drawn.chunks); ++chunk)
      for (const auto& results : drawn.expected)
        if (results[chunk]) {
          values.push_back(*results[chunk]);
          break;
        }
    return values;
  }

  Json play_json(const Play& drawn) const {
    Json frames = Json::array();
    for (const Frame& frame : drawn.frames) {
      Json transfers = Json::array(), holds = Json::array();
      for (const Transfer& t : frame.transfers)
        transfers.push_back({{"from", t.from}, {"to", t.to}, {"chunk", t.chunk}, {"value", t.value}});
      for (const auto& row : frame.holds) {
        auto& values = holds.emplace_back(Json::array());
        for (const HeldChunk& chunk : row) values.push_back(chunk.value ? Json(*chunk.value) : nullptr);
      }
      frames.push_back({{"transfers", transfers}, {"holds", holds}});
    }
    return {{"algorithm", name_of(drawn_)}, {"correct", drawn.correct}, {"frames", frames}};
  }

  const CollectiveQuestion& question_;
  Call call_;
  Way way_;
  Algorithm picked_;
  ExpectedTime time_;
  Algorithm drawn_;
  bool colour_ = colour_on(stdout);
};

}  // namespace

void explain_collective(const CollectiveQuestion& question) { Story(question).print(); }

void explain_collective_json(const CollectiveQuestion& question) {
  fmt::print("{}\n", Story(question).json().dump(2));
}

}  // namespace rondo
