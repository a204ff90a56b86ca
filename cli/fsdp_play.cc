#include "cli/fsdp_play.h"

#include <fmt/format.h>

#include <numeric>

#include "models/sharding.h"
#include "src/collective.h"
#include "src/error.h"
#include "src/ledger.h"

namespace rondo {
namespace {

constexpr int root = 0;

std::size_t index(int number) { return static_cast<std::size_t>(number); }

PlayedUnit unit_of(const ParameterUnit& parameters, std::string name, int ranks, DataType type) {
  PlayedUnit unit{std::move(name), std::vector<std::uint64_t>(index(ranks)), 0};
  for (const ParameterSpec& parameter : parameters.parameters)
    for (int rank = 0; rank < ranks; ++rank)
      unit.shard_bytes[index(rank)] +=
          *element_count(shard_shape(parameter.name, parameter.shape, rank, ranks)) * size_of(type);
  unit.bytes = std::accumulate(unit.shard_bytes.begin(), unit.shard_bytes.end(), std::uint64_t{0});
  if (unit.bytes != element_count(parameters) * size_of(type))
    fail(ErrorKind::internal, "{}: the shards do not add up to the unit", unit.name);
  return unit;
}

class Author {
 public:
  Author(const Qwen3Config& config, int ranks, DataType type) {
    play_.ranks = ranks;
    int number = -1;
    for (const ParameterUnit& unit : qwen3_units(config)) {
      play_.units.push_back(
          unit_of(unit, number < 0 ? "root" : fmt::format("layer {}", number), ranks, type));
      ++number;
    }
    now_ = {FsdpStep::Kind::start, -1, "", false, {}, 0, none(), none(), none()};
  }

  FsdpPlay write() {
    note(FsdpStep::Kind::start, -1);
    forward();
    now_.in_backward = true;
    backward();
    optimizer();
    return std::move(play_);
  }

 private:
  int last() const { return static_cast<int>(play_.units.size()) - 1; }
  std::vector<bool> none() const { return std::vector<bool>(play_.units.size()); }

  void forward() {
    gather(root);
    note(FsdpStep::Kind::forward, root, "embedding");
    for (int layer = 1; layer <= last(); ++layer) {
      gather(layer);
      note(FsdpStep::Kind::forward, layer);
      free_parameters(layer);
    }
    note(FsdpStep::Kind::forward, root, "norm, head, loss");
  }

  void backward() {
    compute_gradient(root, "loss, head, norm");
    gather(last());
    for (int layer = last(); layer >= 1; --layer) {
      if (layer > 1) gather(layer - 1);
      compute_gradient(layer);
      free_parameters(layer);
      scatter(layer);
    }
    compute_gradient(root, "embedding");
    free_parameters(root);
    scatter(root);
  }

  void gather(int unit) {
    now_.whole[index(unit)] = true;
    note(FsdpStep::Kind::gather, unit, "", bytes_sent(CallKind::all_gather, unit));
  }

  void compute_gradient(int unit, std::string part = "") {
    now_.whole_gradient[index(unit)] = true;
    note(FsdpStep::Kind::backward, unit, std::move(part));
  }

  void free_parameters(int unit) {
    now_.whole[index(unit)] = false;
    note(FsdpStep::Kind::free, unit, "", {}, play_.units[index(unit)].bytes);
  }

  void scatter(int unit) {
    now_.whole_gradient[index(unit)] = false;
    now_.gradient_shard[index(unit)] = true;
    note(FsdpStep::Kind::scatter, unit, "", bytes_sent(CallKind::reduce_scatter, unit),
         play_.units[index(unit)].bytes);
  }

  void optimizer() {
    now_.gradient_shard = none();
    note(FsdpStep::Kind::optimizer, -1);
  }

  std::vector<std::uint64_t> bytes_sent(CallKind kind, int unit) const {
    Call call;
    call.kind = kind;
    const auto& shards = play_.units[index(unit)].shard_bytes;
    call.chunk_bytes.assign(shards.begin(), shards.end());
    const Algorithm algorithm = choose_algorithm(kind, Algorithm::automatic);
    std::vector<std::uint64_t> sent;
    for (int rank = 0; rank < play_.ranks; ++rank)
      sent.push_back(sum_of(expected_payload(call, algorithm, rank, play_.ranks)));
    return sent;
  }

  void note(FsdpStep::Kind kind, int unit, std::string part = "", std::vector<std::uint64_t> sent = {},
            std::uint64_t freed = 0) {
    now_.kind = kind;
    now_.unit = unit;
    now_.part = std::move(part);
    now_.sent = sent.empty() ? std::vector<std::uint64_t>(index(play_.ranks)) : std::move(sent);
    now_.freed = freed;
    play_.steps.push_back(now_);
  }

  FsdpPlay play_{};
  FsdpStep now_{};
};

}  // namespace

std::uint64_t FsdpPlay::shards(int rank) const {
  std::uint64_t bytes = 0;
  for (const PlayedUnit& unit : units) bytes += unit.shard_bytes[index(rank)];
  return bytes;
}

std::uint64_t FsdpPlay::unsharded(const FsdpStep& step) const {
  std::uint64_t bytes = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (step.whole[unit]) bytes += units[unit].bytes;
  return bytes;
}

std::uint64_t FsdpPlay::gradients(const FsdpStep& step, int rank) const {
  std::uint64_t bytes = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (step.whole_gradient[unit]) bytes += units[unit].bytes;
    if (step.gradient_shard[unit]) bytes += units[unit].shard_bytes[index(rank)];
  }
  return bytes;
}

std::uint64_t FsdpPlay::held(const FsdpStep& step, int rank) const {
  return shards(rank) + unsharded(step) + gradients(step, rank);
}

std::uint64_t FsdpPlay::sent_by(int rank) const {
  std::uint64_t bytes = 0;
  for (const FsdpStep& step : steps) bytes += step.sent[index(rank)];
  return bytes;
}

FsdpPlay play_fsdp(const Qwen3Config& config, int ranks, DataType type) {
  return Author(config, ranks, type).write();
}

}  // namespace rondo
