// The sizes of the Megatron block, and its weights: named, shaped, cut over the ranks, generated, gathered.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/compute.h"
#include "models/patch.h"
#include "models/shape.h"
#include "models/tensor_parallel.h"

namespace rondo {

// Where LayerNorm stands: x + part(LN(x)), or LN(x + part(x)).
enum class NormPlace { pre, post };
const char* name_of(NormPlace place);

struct MegatronConfig {
  std::size_t batch = 4;
  std::size_t sequence = 128;
  std::size_t hidden = 512;
  std::size_t heads = 8;
  std::optional<std::size_t> ffn = std::nullopt;  // 4 * hidden unless given
  NormPlace norm = NormPlace::pre;
  Conjugates conjugates = Conjugates::megatron;

  std::size_t tokens() const { return batch * sequence; }
  std::size_t elements() const { return tokens() * hidden; }  // of x: B S H
  std::size_t ffn_width() const { return ffn.value_or(4 * hidden); }
  std::size_t head_dim() const { return hidden / heads; }
};

// Throws invalid_argument, with the numbers, where a size is 0 or too large, where heads do not divide
// hidden, or where the ranks do not divide heads or the width of the FFN.
void check(const MegatronConfig& config, int ranks);

// wq, wk, wv [H, H], w1 [H, F], w2 [F, H], used as x @ w: whole, or one rank's columns of the first four and
// rows of w2.
template <typename Tensor>
struct MegatronTensors {
  Tensor wq, wk, wv, w1, w2;
};
using MegatronWeights = MegatronTensors<std::vector<float>>;  // the host's
using PlacedWeights = MegatronTensors<Values>;                // where a block computes

struct MegatronWeightSpec {
  const char* name;
  std::vector<float> MegatronWeights::*values;
  Values PlacedWeights::*placed;
  std::size_t rows, columns;  // of the whole
  bool by_rows;               // how it is cut

  Shape shape() const { return {rows, columns}; }
  // What a rank holds of it.
  Patch patch(int rank, int ranks) const;
};

std::array<MegatronWeightSpec, 5> weight_specs(const MegatronConfig& config);

// Copies, there and back.
PlacedWeights place(Compute& compute, const MegatronConfig& config, const MegatronWeights& weights);
MegatronWeights on_host(Compute& compute, const MegatronConfig& config, const PlacedWeights& weights);

// A rank's part of the weights, which `whole` holds.
MegatronWeights shard_of(const MegatronWeights& whole, const MegatronConfig& config, int rank, int ranks);

// A rank's part of the weights of layer `layer`, made by models/generator.h: uniform, divided by the square
// root of the first dimension. A tensor's key is its name; from layer 1 on that is "layers.1.wq" and so on.
MegatronWeights generated_shard(const MegatronConfig& config, std::size_t layer, int rank, int ranks);

// x [B, S, H], or something of its shape, by the tensor's name: uniform in [-1, 1).
std::vector<float> generated_input(const MegatronConfig& config, const std::string& name);

// Collective: rank 0 gets the whole of what each rank holds its part of; the others get nothing.
MegatronWeights gather_to_first(Communicator& communicator, const MegatronConfig& config,
                                const MegatronWeights& shard);

}  // namespace rondo
