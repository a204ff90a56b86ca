// A whole Qwen3 model, sharded over the ranks of a communicator: embedding, decoder layers, final norm,
// output head (tied to the embedding or not), cross-entropy of the next tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/rope.h"
#include "models/checkpoint.h"
#include "models/fsdp.h"
#include "models/qwen3_config.h"
#include "models/qwen3_layer.h"

namespace rondo {

// Scopes of the ledger, and rows of its report.
namespace qwen3_scope {
std::string forward(const FsdpUnit& unit);   // "forward/model.layers.0"
std::string backward(const FsdpUnit& unit);  // the second gather
std::string reduce(const FsdpUnit& unit);    // the gradients
inline constexpr const char* loss = "loss";
inline constexpr const char* gradient_norm = "gradient norm";
}  // namespace qwen3_scope

struct Qwen3Options {
  FsdpTypes types;
  std::size_t positions = 4096;       // the longest sample
  Compute* compute = &cpu_compute();  // outlives the model
};

class Qwen3 {
 public:
  // All parameters are zero until one of the initializers was called.
  Qwen3(std::shared_ptr<Communicator> communicator, Qwen3Config config, Qwen3Options options);
  Qwen3(const Qwen3&) = delete;
  Qwen3& operator=(const Qwen3&) = delete;

  // Fresh weights as transformers makes them: normal with the config's deviation, norms 1. They depend on the
  // seed and not on the number of ranks.
  void initialize_fresh(std::uint64_t seed);
  // Reads this rank's rows only.
  void initialize_from(const Checkpoint& checkpoint);
  void initialize(const FsdpUnit::Fill& fill);

  // ids: this rank's samples, [samples, length], labels are the next tokens; every rank passes the same
  // length. Returns the mean loss over all ranks' label tokens, the same on every rank. Keeps what backward
  // needs.
  double forward(std::span<const std::int64_t> ids, TokenShape shape);
  // Leaves the gradient of the mean loss, times loss_scale, in the units' gradient shards (added to what they
  // had).
  void backward(float loss_scale = 1.0f);
  // [samples, length, vocabulary] of the last forward on this rank, the host's; valid until the next call.
  std::span<const float> logits() { return compute_.on_host(logits_, host_logits_); }

  // The norm of all gradients over all ranks, each parameter once. Collective.
  double gradient_norm();
  void scale_gradients(float factor);
  void zero_gradients();
  void step(const AdamW& options, std::int64_t step);

  const Qwen3Config& config() const { return config_; }
  Compute& compute() { return compute_; }
  Communicator& communicator() { return *communicator_; }
  std::vector<FsdpUnit>& layers() { return layers_; }
  FsdpUnit& root() { return root_; }
  // Root first, then the layers.
  std::vector<FsdpUnit*> units();

 private:
  std::size_t head_parameter() const { return config_.tie_word_embeddings ? 0 : 2; }
  double mean_loss(std::span<const std::int64_t> labels);

  std::shared_ptr<Communicator> communicator_;
  Compute& compute_;
  Qwen3Config config_;
  Qwen3Layer layer_;
  BlockPool pool_;
  FsdpUnit root_;
  std::vector<FsdpUnit> layers_;

  // Of the last forward.
  TokenShape shape_{0, 0};
  std::vector<std::int64_t> ids_, labels_;
  std::vector<Qwen3LayerActivations> kept_;
  Values hidden_, normed_, inverse_rms_, logits_, log_sum_exp_;
  std::vector<float> host_logits_;
  double total_labels_ = 0;
};

// The next token of each token of a sample; the last has none (ignore_label).
std::vector<std::int64_t> next_token_labels(std::span<const std::int64_t> ids, TokenShape shape);

}  // namespace rondo
