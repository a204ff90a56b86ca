// A transformer block cut over ranks as Megatron-LM cuts it (Shoeybi et al., 2019), with its backward pass.
//
//   attention: q, k, v = t wq, t wk, t wv, cut by columns, so that each rank has whole heads; softmax(q k^T /
//              sqrt(head_dim)) v for each head, every token seeing all of its sample; the heads' outputs
//              gathered. No output projection.
//   ffn:       gelu(t w1) w2, w1 cut by columns and w2 by rows; the ranks' parts added up.
//   block:     x + part(LN(x)), or LN(x + part(x)), with attention and then ffn for part. LayerNorm has no
//   parameters
//              and eps 1e-5.
//
// All tensors are f32 and row-major; x, outputs and their gradients are [batch, sequence, hidden] and the
// same on all ranks; weights and their gradients are a rank's own parts. A block's tensors are in its
// Compute's memory, what a model takes and gives is the host's. Every function is collective.
// Communication is booked in the ledger under tp_scopes; all arithmetic is local, on the calling thread. A
// model belongs to one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "models/megatron_weights.h"
#include "models/tensor_parallel.h"

namespace rondo {

// Scopes of the ledger. What is booked under `block` itself, and not below it, would be communication by
// residuals, GELU or LayerNorm: there is none.
namespace tp_scopes {
inline constexpr const char* block = "tp";
inline constexpr const char* attention_forward = "attention forward";
inline constexpr const char* ffn_forward = "ffn forward";
inline constexpr const char* attention_backward = "attention backward";
inline constexpr const char* ffn_backward = "ffn backward";
inline constexpr const char* leaf = "gradient of x";
inline constexpr const char* same_input = "x is the same";
}  // namespace tp_scopes

class ResidualPart;

class MegatronBlock {
 public:
  // weights: this rank's parts. Throws invalid_argument where check() does and where a weight has another
  // size.
  MegatronBlock(TensorParallel& parallel, const MegatronConfig& config, const MegatronWeights& weights);
  ~MegatronBlock();

  // out for x. Keeps activations for the backward pass, and a view of x, which must stay as it is until then.
  void forward(std::span<const float> x, std::span<float> out);
  // forward() in its two halves, for those who time them.
  void forward_attention(std::span<const float> x);
  void forward_ffn(std::span<float> out);

  // Overwrites dx and gradients() for the gradient dout of the last forward()'s output.
  void backward(std::span<const float> dout, std::span<float> dx);

  PlacedWeights& weights() { return weights_; }
  const PlacedWeights& weight_gradients() const { return gradients_; }
  // A copy for the host.
  MegatronWeights gradients() const;

 private:
  MegatronConfig config_;
  Compute& compute_;
  PlacedWeights weights_, gradients_;
  Communicator& communicator_;
  std::unique_ptr<ResidualPart> attention_, ffn_;
  Values middle_, dmiddle_;  // after attention and its residual
};

// A stack of blocks, the same sizes in all of them.
class MegatronModel {
 public:
  // layers: this rank's parts of the weights of each layer, one at least. Throws as MegatronBlock does. The
  // Compute must outlive the model.
  MegatronModel(Communicator& communicator, const MegatronConfig& config, std::vector<MegatronWeights> layers,
                Compute& compute = cpu_compute());
  MegatronModel(const MegatronModel&) = delete;
  MegatronModel& operator=(const MegatronModel&) = delete;

  // The output for x, valid until the next forward(). Keeps a view of x as a block does. Throws
  // invalid_argument on every rank unless x has the same bits on all of them.
  std::span<const float> forward(std::span<const float> x);
  // The gradient of x, the same on every rank, for the gradient dout of the loss, whole and the same on every
  // rank. Overwrites every block's gradients: they are those of one process, whichever the conjugates.
  std::span<const float> backward(std::span<const float> dout);

  Compute& compute() const { return parallel_.compute(); }
  std::size_t layers() const { return blocks_.size(); }
  MegatronBlock& block(std::size_t layer) { return blocks_[layer]; }

 private:
  MegatronConfig config_;
  TensorParallel parallel_;
  std::deque<MegatronBlock> blocks_;
  Values x_;                               // where the host's x cannot be computed on
  std::vector<Values> outputs_;            // by layer
  Values gradient_, next_gradient_;        // on their way down
  std::vector<float> host_out_, host_dx_;  // where the host cannot read what was computed
};

// The losses and their gradients for an output, local arithmetic alike on every rank, sums in f64. They
// overwrite dout. mean(out).
double mean_loss(std::span<const float> out, std::span<float> dout);
// mean((out - target)^2).
double squared_error_loss(std::span<const float> out, std::span<const float> target, std::span<float> dout);

}  // namespace rondo
