#include "models/megatron.h"

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

constexpr float layer_norm_eps = 1e-5f;

void need_values(const char* name, std::size_t count, std::size_t expected) {
  if (count != expected)
    fail(ErrorKind::invalid_argument, "{} has {} elements: expected {}", name, count, expected);
}

// What stands between a residual's fork and its sum.
class Part {
 public:
  virtual ~Part() = default;
  // Keeps a view of t.
  virtual void forward(std::span<const float> t, std::span<float> y) = 0;
  virtual void backward(std::span<const float> dy, std::span<float> dt) = 0;
};

class AttentionPart : public Part {
 public:
  AttentionPart(TensorParallel& parallel, const MegatronConfig& config, const PlacedWeights& weights,
                PlacedWeights& gradients)
      : parallel_(parallel),
        compute_(parallel.compute()),
        weights_(weights),
        gradients_(gradients),
        rows_(config.tokens()),
        hidden_(config.hidden),
        width_(config.hidden / static_cast<std::size_t>(parallel.size())) {
    const std::size_t heads = config.heads / static_cast<std::size_t>(parallel.size());
    shape_ = {config.batch, config.sequence, heads, heads, config.head_dim(), false};
    for (Values* values : {&q_, &k_, &v_, &local_, &dq_, &dk_, &dv_})
      *values = Values(compute_, rows_ * width_);
    probabilities_ = Values(compute_, config.batch * heads * config.sequence * config.sequence);
  }

  void forward(std::span<const float> t, std::span<float> y) override {
    t_ = t;
    project(weights_.wq, q_);
    project(weights_.wk, k_);
    project(weights_.wv, v_);
    compute_.attention(shape_, q_, k_, v_, local_, probabilities_);
    const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::attention_forward);
    parallel_.gather_forward(local_, rows_, y);
  }

  void backward(std::span<const float> dy, std::span<float> dt) override {
    const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::attention_backward);
    parallel_.gather_backward(dy, rows_, local_);
    compute_.attention_backward(shape_, local_, q_, k_, v_, probabilities_, dq_, dk_, dv_);
    compute_.clear(std::as_writable_bytes(dt));
    project_backward(weights_.wq, dq_, gradients_.wq, dt);
    project_backward(weights_.wk, dk_, gradients_.wk, dt);
    project_backward(weights_.wv, dv_, gradients_.wv, dt);
    parallel_.f_backward(dt);
  }

 private:
  void project(const Values& weight, Values& to) {
    compute_.matmul({t_, rows_, hidden_}, {weight, hidden_, width_}, {to, rows_, width_});
  }
  void project_backward(const Values& weight, const Values& dto, Values& dweight, std::span<float> dt) {
    compute_.matmul(transposed({t_, rows_, hidden_}), {dto, rows_, width_}, {dweight, hidden_, width_});
    compute_.matmul_add({dto, rows_, width_}, transposed({weight, hidden_, width_}), {dt, rows_, hidden_});
  }

  TensorParallel& parallel_;
  Compute& compute_;
  const PlacedWeights& weights_;
  PlacedWeights& gradients_;
  std::size_t rows_, hidden_, width_;
  AttentionShape shape_;
  std::span<const float> t_;
  Values q_, k_, v_, probabilities_;
  Values local_;  // this rank's heads' outputs; in backward their gradient
  Values dq_, dk_, dv_;
};

class FfnPart : public Part {
 public:
  FfnPart(TensorParallel& parallel, const MegatronConfig& config, const PlacedWeights& weights,
          PlacedWeights& gradients)
      : parallel_(parallel),
        compute_(parallel.compute()),
        weights_(weights),
        gradients_(gradients),
        rows_(config.tokens()),
        hidden_(config.hidden),
        width_(config.ffn_width() / static_cast<std::size_t>(parallel.size())) {
    for (Values* values : {&wide_, &activated_, &dwide_}) *values = Values(compute_, rows_ * width_);
    if (parallel.conjugates() == Conjugates::dual) sum_ = Values(compute_, rows_ * hidden_);
  }

  void forward(std::span<const float> t, std::span<float> y) override {
    t_ = t;
    compute_.matmul({t, rows_, hidden_}, {weights_.w1, hidden_, width_}, {wide_, rows_, width_});
    compute_.gelu(wide_, activated_);
    compute_.matmul({activated_, rows_, width_}, {weights_.w2, width_, hidden_}, {y, rows_, hidden_});
    const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::ffn_forward);
    parallel_.g_forward(y);
  }

  void backward(std::span<const float> dy, std::span<float> dt) override {
    const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::ffn_backward);
    const Matrix dproduct(parallel_.g_backward(dy, sum_), rows_, hidden_);
    compute_.matmul(transposed({activated_, rows_, width_}), dproduct, {gradients_.w2, width_, hidden_});
    compute_.matmul(dproduct, transposed({weights_.w2, width_, hidden_}), {dwide_, rows_, width_});
    compute_.gelu_backward(dwide_, wide_, dwide_);
    compute_.matmul(transposed({t_, rows_, hidden_}), {dwide_, rows_, width_},
                    {gradients_.w1, hidden_, width_});
    compute_.matmul({dwide_, rows_, width_}, transposed({weights_.w1, hidden_, width_}),
                    {dt, rows_, hidden_});
    parallel_.f_backward(dt);
  }

 private:
  TensorParallel& parallel_;
  Compute& compute_;
  const PlacedWeights& weights_;
  PlacedWeights& gradients_;
  std::size_t rows_, hidden_, width_;
  std::span<const float> t_;
  Values wide_, activated_, dwide_;
  Values sum_;  // of the ranks' output gradients, with dual conjugates
};

// LayerNorm over the last dimension, with what its backward pass needs.
class LayerNorm {
 public:
  LayerNorm(Compute& compute, const MegatronConfig& config)
      : compute_(compute), y_(compute, config.elements()), inverse_deviation_(compute, config.tokens()) {}

  std::span<const float> forward(std::span<const float> x) {
    compute_.layer_norm(x, layer_norm_eps, y_, inverse_deviation_);
    return y_;
  }
  void backward(std::span<const float> dy, std::span<float> dx) {
    compute_.layer_norm_backward(dy, y_, inverse_deviation_, dx);
  }

 private:
  Compute& compute_;
  Values y_, inverse_deviation_;
};

void check_sizes(const MegatronConfig& config, const MegatronWeights& weights, int rank, int ranks) {
  for (const MegatronWeightSpec& spec : weight_specs(config))
    need_values(spec.name, (weights.*spec.values).size(), spec.patch(rank, ranks).elements());
}

}  // namespace

// A part with its residual and its norm: x + part(LN(x)), or LN(x + part(x)).
class ResidualPart {
 public:
  ResidualPart(Compute& compute, const MegatronConfig& config, std::unique_ptr<Part> part)
      : compute_(compute),
        place_(config.norm),
        norm_(compute, config),
        part_(std::move(part)),
        room_(compute, config.elements()) {}

  void forward(std::span<const float> x, std::span<float> y) {
    if (place_ == NormPlace::pre) {
      part_->forward(norm_.forward(x), y);
      compute_.add(y, x);
    } else {
      part_->forward(x, room_);
      compute_.add(room_, x);
      compute_.copy_rows(norm_.forward(room_), y.size(), y, y.size(), 1, y.size());
    }
  }

  void backward(std::span<const float> dy, std::span<float> dx) {
    if (place_ == NormPlace::pre) {
      part_->backward(dy, room_);
      norm_.backward(room_, dx);
      compute_.add(dx, dy);
    } else {
      norm_.backward(dy, room_);
      part_->backward(room_, dx);
      compute_.add(dx, room_);
    }
  }

 private:
  Compute& compute_;
  NormPlace place_;
  LayerNorm norm_;
  std::unique_ptr<Part> part_;
  Values room_;  // the sum before the norm, or a gradient on either side of the part
};

MegatronBlock::MegatronBlock(TensorParallel& parallel, const MegatronConfig& config,
                             const MegatronWeights& weights)
    : config_(config), compute_(parallel.compute()), communicator_(parallel.communicator()) {
  check(config, parallel.size());
  check_sizes(config, weights, parallel.rank(), parallel.size());
  weights_ = place(compute_, config, weights);
  for (const MegatronWeightSpec& spec : weight_specs(config))
    gradients_.*spec.placed = Values(compute_, (weights.*spec.values).size());
  middle_ = Values(compute_, config.elements());
  dmiddle_ = Values(compute_, config.elements());
  attention_ = std::make_unique<ResidualPart>(
      compute_, config, std::make_unique<AttentionPart>(parallel, config, weights_, gradients_));
  ffn_ = std::make_unique<ResidualPart>(compute_, config,
                                        std::make_unique<FfnPart>(parallel, config, weights_, gradients_));
}

MegatronBlock::~MegatronBlock() = default;

MegatronWeights MegatronBlock::gradients() const { return on_host(compute_, config_, gradients_); }

void MegatronBlock::forward(std::span<const float> x, std::span<float> out) {
  forward_attention(x);
  forward_ffn(out);
}

void MegatronBlock::forward_attention(std::span<const float> x) {
  need_values("x", x.size(), middle_.size());
  const LedgerScope scope(communicator_.ledger(), tp_scopes::block);
  attention_->forward(x, middle_);
}

void MegatronBlock::forward_ffn(std::span<float> out) {
  need_values("out", out.size(), middle_.size());
  const LedgerScope scope(communicator_.ledger(), tp_scopes::block);
  ffn_->forward(middle_, out);
}

void MegatronBlock::backward(std::span<const float> dout, std::span<float> dx) {
  need_values("dout", dout.size(), middle_.size());
  need_values("dx", dx.size(), middle_.size());
  const LedgerScope scope(communicator_.ledger(), tp_scopes::block);
  ffn_->backward(dout, dmiddle_);
  attention_->backward(dmiddle_, dx);
}

MegatronModel::MegatronModel(Communicator& communicator, const MegatronConfig& config,
                             std::vector<MegatronWeights> layers, Compute& compute)
    : config_(config), parallel_(communicator, config.conjugates, compute) {
  check(config, communicator.size());
  if (layers.empty()) fail(ErrorKind::invalid_argument, "layers is 0: expected at least 1");
  for (MegatronWeights& weights : layers) {
    blocks_.emplace_back(parallel_, config, weights);
    weights = {};  // has been copied
    outputs_.emplace_back(compute, config.elements());
  }
  gradient_ = Values(compute, config.elements());
  next_gradient_ = Values(compute, config.elements());
}

std::span<const float> MegatronModel::forward(std::span<const float> x) {
  {
    const LedgerScope model(parallel_.communicator().ledger(), tp_scopes::block);
    const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::same_input);
    parallel_.need_same("x", x);
  }
  x = compute().from_host(x, x_);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    blocks_[layer].forward(x, outputs_[layer]);
    x = outputs_[layer];
  }
  return compute().on_host(x, host_out_);
}

std::span<const float> MegatronModel::backward(std::span<const float> dout) {
  need_values("dout", dout.size(), gradient_.size());
  // With dual operators every rank's loss counts, which makes all gradients N times too large. They are
  // linear in the gradient that goes in, so that one is divided, and not each of those that come out.
  const float divisor = config_.conjugates == Conjugates::dual ? static_cast<float>(parallel_.size()) : 1.0f;
  compute().write(gradient_, [&](std::span<float> gradient) {
    std::ranges::transform(dout, gradient.begin(), [&](float value) { return value / divisor; });
  });
  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    blocks_[layer].backward(gradient_, next_gradient_);
    std::swap(gradient_, next_gradient_);
  }
  const LedgerScope model(parallel_.communicator().ledger(), tp_scopes::block);
  const LedgerScope scope(parallel_.communicator().ledger(), tp_scopes::leaf);
  parallel_.sum_leaf(gradient_);
  return compute().on_host(gradient_, host_dx_);
}

double mean_loss(std::span<const float> out, std::span<float> dout) {
  need_values("dout", dout.size(), out.size());
  const double count = static_cast<double>(out.size());
  double sum = 0.0;
  for (const float value : out) sum += value;
  std::fill(dout.begin(), dout.end(), static_cast<float>(1.0 / count));
  return sum / count;
}

double squared_error_loss(std::span<const float> out, std::span<const float> target, std::span<float> dout) {
  need_values("target", target.size(), out.size());
  need_values("dout", dout.size(), out.size());
  const double count = static_cast<double>(out.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double difference = static_cast<double>(out[i]) - target[i];
    sum += difference * difference;
    dout[i] = static_cast<float>(2.0 * difference / count);
  }
  return sum / count;
}

}  // namespace rondo
