// A training step of FSDP2: who holds, sends and frees what.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/explain.h"
#include "cli/fsdp_play.h"
#include "cli/table.h"
#include "src/error.h"

namespace rondo {
namespace {

// A picture of more squares than this is none any more.
constexpr std::size_t most_squares = 60;

Qwen3Config config_of(const FsdpQuestion& question) {
  Qwen3Config config;
  if (!question.config.empty()) {
    config = load_qwen3_config(question.config);
  } else {
    config.vocab_size = 512;
    config.hidden_size = 512;
    config.intermediate_size = 1024;
    config.num_attention_heads = 8;
    config.num_key_value_heads = 4;
    config.head_dim = 64;
    config.tie_word_embeddings = true;
  }
  config.num_hidden_layers = static_cast<std::size_t>(question.layers);
  require_valid(config, "explain fsdp");
  return config;
}

const char* name_of(FsdpStep::Kind kind) {
  switch (kind) {
    case FsdpStep::Kind::start:
      return "start";
    case FsdpStep::Kind::gather:
      return "all-gather";
    case FsdpStep::Kind::forward:
      return "forward";
    case FsdpStep::Kind::free:
      return "free";
    case FsdpStep::Kind::backward:
      return "backward";
    case FsdpStep::Kind::scatter:
      return "reduce-scatter";
    case FsdpStep::Kind::optimizer:
      return "optimizer";
  }
  return "?";
}

Style style_of(FsdpStep::Kind kind) {
  switch (kind) {
    case FsdpStep::Kind::gather:
      return Style::cyan;
    case FsdpStep::Kind::scatter:
      return Style::yellow;
    case FsdpStep::Kind::free:
      return Style::green;
    case FsdpStep::Kind::start:
    case FsdpStep::Kind::forward:
    case FsdpStep::Kind::backward:
    case FsdpStep::Kind::optimizer:
      return Style::plain;
  }
  return Style::plain;
}

bool equal_on_all_ranks(const std::vector<std::uint64_t>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](std::uint64_t value) { return value == values.front(); });
}

class Walkthrough {
 public:
  explicit Walkthrough(const FsdpQuestion& question)
      : question_(question),
        config_(config_of(question)),
        play_(play_fsdp(config_, question.ranks, question.type)) {}

  void print() const {
    print_head();
    print_units();
    print_steps();
    print_sums();
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json units = nlohmann::ordered_json::array(), steps = nlohmann::ordered_json::array();
    for (const PlayedUnit& unit : play_.units)
      units.push_back({{"name", unit.name}, {"bytes", unit.bytes}, {"shard_bytes", unit.shard_bytes}});
    for (const FsdpStep& step : play_.steps) steps.push_back(step_json(step));
    std::vector<std::uint64_t> sent;
    for (int rank = 0; rank < play_.ranks; ++rank) sent.push_back(play_.sent_by(rank));
    return {{"ranks", play_.ranks},
            {"layers", question_.layers},
            {"type", rondo::name_of(question_.type)},
            {"units", units},
            {"steps", steps},
            {"sent_by_rank", sent}};
  }

 private:
  void print_head() const {
    fmt::print("{} on {} rank{}, {} layer{}, {}\n", paint("A training step of FSDP2", Style::bold, colour_),
               play_.ranks, play_.ranks == 1 ? "" : "s", question_.layers, question_.layers == 1 ? "" : "s",
               rondo::name_of(question_.type));
    fmt::print("hidden {}, {} query and {} key-value heads of {}, ffn {}, vocabulary {}, {} head\n\n",
               config_.hidden_size, config_.num_attention_heads, config_.num_key_value_heads,
               config_.head_dim, config_.intermediate_size, config_.vocab_size,
               config_.tie_word_embeddings ? "tied" : "untied");
  }

  void print_units() const {
    Table table({{"unit"},
                 number_column("elements"),
                 number_column("bytes"),
                 number_column("a rank's shard"),
                 number_column("one gather sends")});
    const std::size_t shown = std::min<std::size_t>(play_.units.size(), 2);  // all layers are alike
    for (std::size_t unit = 0; unit < shown; ++unit) {
      const PlayedUnit& one = play_.units[unit];
      const bool layers = unit == 1 && play_.units.size() > 2;
      table.add({layers ? fmt::format("each layer, 0 to {}", play_.units.size() - 2) : one.name,
                 one.bytes / size_of(question_.type), one.bytes, shares_text(one.shard_bytes),
                 shares_text(gather_of(unit))});
    }
    table.print();
    if (!equal())
      fmt::print("  * The rows do not divide: this is rank 0's, the largest. --json tells every rank's.\n");
  }

  const std::vector<std::uint64_t>& gather_of(std::size_t unit) const {
    return std::find_if(play_.steps.begin(), play_.steps.end(),
                        [&](const FsdpStep& step) {
                          return step.kind == FsdpStep::Kind::gather && step.unit == static_cast<int>(unit);
                        })
        ->sent;
  }

  bool equal() const {
    return std::all_of(play_.units.begin(), play_.units.end(),
                       [](const PlayedUnit& unit) { return equal_on_all_ranks(unit.shard_bytes); });
  }

  static std::string shares_text(const std::vector<std::uint64_t>& values) {
    return grouped(values.front()) + (equal_on_all_ranks(values) ? "" : "*");
  }

  bool pictured() const { return play_.units.size() * static_cast<std::size_t>(play_.ranks) <= most_squares; }

  void print_steps() const {
    fmt::print("\nBytes of rank 0{}. Its shards of the parameters, {}, it always holds.\n",
               equal() ? ", which are every rank's" : "", grouped(play_.shards(0)));
    std::vector<Column> columns{number_column(""),          {"step"},
                                number_column("sends"),     number_column("frees"),
                                number_column("unsharded"), number_column("gradients"),
                                number_column("held")};
    if (pictured()) columns.push_back({"parameters"});
    if (pictured()) columns.push_back({"gradients"});
    Table table(columns);
    const std::uint64_t peak = peak_bytes();
    for (std::size_t number = 0; number < play_.steps.size(); ++number) {
      const FsdpStep& step = play_.steps[number];
      if (number > 0 &&
          (step.in_backward != play_.steps[number - 1].in_backward || step.kind == FsdpStep::Kind::optimizer))
        table.add_rule();
      const std::uint64_t held = play_.held(step, 0);
      std::vector<Cell> cells{number,
                              {step_text(step), style_of(step.kind)},
                              amount(step.sent.front(), Style::bold),
                              amount(step.freed, Style::plain),
                              amount(play_.unsharded(step), Style::plain),
                              amount(play_.gradients(step, 0), Style::plain),
                              {grouped(held), held == peak ? Style::red : Style::plain}};
      if (pictured()) {
        cells.push_back(picture(step.whole, std::vector<bool>(play_.units.size(), true)));
        cells.push_back(picture(step.whole_gradient, step.gradient_shard));
      }
      table.add(std::move(cells));
    }
    table.print();
    if (pictured())
      fmt::print(
          "\n  ■ a rank's part of a unit that rank 0 holds, · one that it does not; root first, then the "
          "layers\n");
  }

  // A square for each rank's part of each unit, full where rank 0 holds it.
  std::string picture(const std::vector<bool>& whole, const std::vector<bool>& shard) const {
    std::string text;
    for (std::size_t unit = 0; unit < play_.units.size(); ++unit) {
      if (unit > 0) text += " ";
      for (int rank = 0; rank < play_.ranks; ++rank)
        text += whole[unit] || (shard[unit] && rank == 0) ? "■" : "·";
    }
    return text;
  }

  static Cell amount(std::uint64_t bytes, Style style) { return bytes == 0 ? Cell("") : Cell(bytes, style); }

  std::string step_text(const FsdpStep& step) const {
    if (step.kind == FsdpStep::Kind::optimizer) return "optimizer";
    if (step.unit < 0) return name_of(step.kind);
    const std::string& unit = play_.units[static_cast<std::size_t>(step.unit)].name;
    const std::string what = step.kind == FsdpStep::Kind::free      ? " parameters"
                             : step.kind == FsdpStep::Kind::scatter ? " gradient"
                                                                    : "";
    return fmt::format("{} {}{}{}", name_of(step.kind), unit, what,
                       step.part.empty() ? "" : ": " + step.part);
  }

  std::uint64_t peak_bytes() const {
    std::uint64_t peak = 0;
    for (const FsdpStep& step : play_.steps) peak = std::max(peak, play_.held(step, 0));
    return peak;
  }

  void print_sums() const {
    const double share = static_cast<double>(play_.ranks - 1) / play_.ranks;
    std::uint64_t root = 0, all = play_.sent_by(0);
    for (const FsdpStep& step : play_.steps)
      if (step.unit == 0) root += step.sent.front();
    const std::uint64_t layers = all - root;
    Table table({{""}, number_column("bytes rank 0 sends"), {""}});
    table.add({"a layer: gather, gather again, reduce-scatter",
               layers / static_cast<std::uint64_t>(question_.layers),
               {fmt::format("3(N-1)/N = {:.4g} times its bytes", 3 * share), Style::dim}});
    table.add({fmt::format("{} layer{}", question_.layers, question_.layers == 1 ? "" : "s"), layers});
    table.add({"root: gather, reduce-scatter; whole from forward to backward",
               root,
               {fmt::format("2(N-1)/N = {:.4g} times its bytes", 2 * share), Style::dim}});
    table.add({"the training step", {grouped(all), Style::bold}});
    fmt::print("\n");
    table.print();
    fmt::print(
        "\n  Most held at once: {} bytes, the shards among them. Activations, which are never sharded, and "
        "the\n"
        "  optimizer's state stand on top. Nothing else is sent: neither between layers nor in the "
        "optimizer.\n",
        grouped(peak_bytes()));
  }

  nlohmann::ordered_json step_json(const FsdpStep& step) const {
    std::vector<std::uint64_t> gradients, held;
    for (int rank = 0; rank < play_.ranks; ++rank) {
      gradients.push_back(play_.gradients(step, rank));
      held.push_back(play_.held(step, rank));
    }
    nlohmann::ordered_json unit = nullptr;
    if (step.unit >= 0) unit = play_.units[static_cast<std::size_t>(step.unit)].name;
    return {{"step", name_of(step.kind)},
            {"unit", unit},
            {"part", step.part},
            {"phase", step.in_backward ? "backward" : "forward"},
            {"sent_by_rank", step.sent},
            {"freed", step.freed},
            {"unsharded", play_.unsharded(step)},
            {"gradients_by_rank", gradients},
            {"held_by_rank", held}};
  }

  const FsdpQuestion& question_;
  Qwen3Config config_;
  FsdpPlay play_;
  bool colour_ = colour_on(stdout);
};

void need_float(const FsdpQuestion& question) {
  switch (question.type) {
    case DataType::f16:
    case DataType::bf16:
    case DataType::f32:
    case DataType::f64:
      return;
    case DataType::i8:
    case DataType::u8:
    case DataType::i32:
    case DataType::u32:
    case DataType::i64:
    case DataType::u64:
      fail(ErrorKind::invalid_argument, "--type {}: parameters are f16, bf16, f32 or f64",
           rondo::name_of(question.type));
  }
}

}  // namespace

void explain_fsdp(const FsdpQuestion& question) {
  need_float(question);
  Walkthrough(question).print();
}

void explain_fsdp_json(const FsdpQuestion& question) {
  need_float(question);
  fmt::print("{}\n", Walkthrough(question).json().dump(2));
}

}  // namespace rondo
