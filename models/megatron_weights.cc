#include "models/megatron_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "models/generator.h"
#include "src/calls.h"

namespace rondo {
namespace {

void need_size(const char* name, std::size_t size) {
  if (size == 0) fail(ErrorKind::invalid_argument, "{} is 0: expected at least 1", name);
}

void need_multiple(const char* name, std::size_t size, const char* of_name, std::size_t of) {
  if (size % of != 0)
    fail(ErrorKind::invalid_argument, "{} {} is no multiple of {} {}: {} x {} leaves {}", name, size, of_name,
         of, size / of, of, size % of);
}

// Every product of two or three sizes that a buffer needs must fit an address space.
void need_room(const MegatronConfig& config) {
  const std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float);
  const auto fits = [&](const Shape& shape) {
    const std::optional<std::size_t> count = element_count(shape);
    return count && *count <= most;
  };
  const std::size_t ffn = config.ffn.value_or(0);
  const bool all_fit = fits({4, config.hidden}) && fits({config.batch, config.sequence, config.hidden}) &&
                       fits({config.batch, config.sequence, 4, config.hidden}) &&
                       fits({config.batch, config.sequence, ffn}) &&
                       fits({4, config.hidden, config.hidden}) && fits({config.hidden, ffn}) &&
                       fits({config.batch, config.heads, config.sequence, config.sequence});
  if (!all_fit)
    fail(ErrorKind::invalid_argument,
         "batch {}, sequence {}, hidden {}, heads {}, ffn {}: so large that a tensor's bytes do not fit the "
         "address "
         "space",
         config.batch, config.sequence, config.hidden, config.heads,
         config.ffn ? fmt::format("{}", *config.ffn) : "4 x hidden");
}

// Tensor NAME of a layer.
std::string layer_name(std::size_t layer, const char* name) {
  return layer == 0 ? name : fmt::format("layers.{}.{}", layer, name);
}

std::vector<float> generated_patch(const std::string& name, const Patch& patch, std::size_t columns,
                                   float scale) {
  const std::uint64_t key = fnv1a(name);
  std::vector<float> values;
  values.reserve(patch.elements());
  for (std::size_t row = patch.first_row; row < patch.first_row + patch.rows; ++row)
    for (std::size_t column = patch.first_column; column < patch.first_column + patch.columns; ++column)
      values.push_back(generated_unit(key, row * columns + column) * scale);
  return values;
}

}  // namespace

const char* name_of(NormPlace place) {
  switch (place) {
    case NormPlace::pre:
      return "pre";
    case NormPlace::post:
      return "post";
  }
  return "?";
}

void check(const MegatronConfig& config, int ranks) {
  need_size("batch", config.batch);
  need_size("sequence", config.sequence);
  need_size("hidden", config.hidden);
  need_size("heads", config.heads);
  need_size("ffn", config.ffn.value_or(1));
  need_room(config);
  need_multiple("hidden", config.hidden, "heads", config.heads);
  need_multiple("heads", config.heads, "ranks", static_cast<std::size_t>(ranks));
  need_multiple("ffn", config.ffn_width(), "ranks", static_cast<std::size_t>(ranks));
}

Patch MegatronWeightSpec::patch(int rank, int ranks) const {
  return by_rows ? row_patch(rows, columns, rank, ranks) : column_patch(rows, columns, rank, ranks);
}

std::array<MegatronWeightSpec, 5> weight_specs(const MegatronConfig& config) {
  const std::size_t hidden = config.hidden, ffn = config.ffn_width();
  return {{{"wq", &MegatronWeights::wq, &PlacedWeights::wq, hidden, hidden, false},
           {"wk", &MegatronWeights::wk, &PlacedWeights::wk, hidden, hidden, false},
           {"wv", &MegatronWeights::wv, &PlacedWeights::wv, hidden, hidden, false},
           {"w1", &MegatronWeights::w1, &PlacedWeights::w1, hidden, ffn, false},
           {"w2", &MegatronWeights::w2, &PlacedWeights::w2, ffn, hidden, true}}};
}

PlacedWeights place(Compute& compute, const MegatronConfig& config, const MegatronWeights& weights) {
  PlacedWeights placed;
  for (const MegatronWeightSpec& spec : weight_specs(config))
    placed.*spec.placed = copy_to(compute, weights.*spec.values);
  return placed;
}

MegatronWeights on_host(Compute& compute, const MegatronConfig& config, const PlacedWeights& weights) {
  MegatronWeights host;
  std::vector<float> room;
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    const std::span<const float> values = compute.on_host(weights.*spec.placed, room);
    (host.*spec.values).assign(values.begin(), values.end());
  }
  return host;
}

MegatronWeights shard_of(const MegatronWeights& whole, const MegatronConfig& config, int rank, int ranks) {
  MegatronWeights shard;
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    const Patch patch = spec.patch(rank, ranks);
    std::vector<float>& mine = shard.*spec.values;
    mine.resize(patch.elements());
    copy_extents(extents_of(patch, whole.*spec.values, spec.columns), extents_of(mine));
  }
  return shard;
}

MegatronWeights generated_shard(const MegatronConfig& config, std::size_t layer, int rank, int ranks) {
  MegatronWeights shard;
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.rows)));
    shard.*spec.values =
        generated_patch(layer_name(layer, spec.name), spec.patch(rank, ranks), spec.columns, scale);
  }
  return shard;
}

std::vector<float> generated_input(const MegatronConfig& config, const std::string& name) {
  return generated_patch(name, {0, config.tokens(), 0, config.hidden}, config.hidden, 1.0f);
}

MegatronWeights gather_to_first(Communicator& communicator, const MegatronConfig& config,
                                const MegatronWeights& shard) {
  const int size = communicator.size();
  const bool first = communicator.rank() == 0;
  MegatronWeights whole;
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    const std::vector<float>& mine = shard.*spec.values;
    std::vector<float>& all = whole.*spec.values;
    if (first) all.resize(spec.rows * spec.columns);
    Call call =
        gather_call({communicator.rank(), size}, mine.data(), all.data(), mine.size(), DataType::f32, 0);
    for (int rank = 0; first && rank < size; ++rank)
      call.output[static_cast<std::size_t>(rank)] = extents_of(spec.patch(rank, size), all, spec.columns);
    communicator.run(std::move(call));
  }
  return whole;
}

}  // namespace rondo
