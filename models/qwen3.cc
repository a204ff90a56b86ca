#include "models/qwen3.h"

#include <algorithm>
#include <cmath>

#include "models/generator.h"
#include "src/calls.h"

namespace rondo {
namespace {

// The root unit's parameters, numbered as qwen3_root_unit() lists them.
enum RootParameter : std::size_t { embedding, final_norm };

std::array<double, 2> sum_over_ranks(Communicator& communicator, const char* scope,
                                     std::array<double, 2> values) {
  const LedgerScope booked(communicator.ledger(), scope);
  communicator.run(all_reduce_call({communicator.rank(), communicator.size()}, values.data(), values.data(),
                                   values.size(), DataType::f64, {}));
  return values;
}

}  // namespace

namespace qwen3_scope {
std::string forward(const FsdpUnit& unit) { return "forward/" + unit.name(); }
std::string backward(const FsdpUnit& unit) { return "backward/" + unit.name(); }
std::string reduce(const FsdpUnit& unit) { return "reduce/" + unit.name(); }
}  // namespace qwen3_scope

std::vector<std::int64_t> next_token_labels(std::span<const std::int64_t> ids, TokenShape shape) {
  std::vector<std::int64_t> labels(ids.size(), ignore_label);
  for (std::size_t sample = 0; sample < shape.samples; ++sample)
    for (std::size_t token = 0; token + 1 < shape.length; ++token)
      labels[sample * shape.length + token] = ids[sample * shape.length + token + 1];
  return labels;
}

Qwen3::Qwen3(std::shared_ptr<Communicator> communicator, Qwen3Config config, Qwen3Options options)
    : communicator_(std::move(communicator)),
      compute_(*options.compute),
      config_(std::move(config)),
      layer_(compute_, config_,
             Rope(static_cast<float>(config_.rope_theta), config_.head_dim, options.positions)),
      pool_(compute_),
      root_(communicator_, qwen3_root_unit(config_), options.types, pool_) {
  require_valid(config_, "model");
  layers_.reserve(config_.num_hidden_layers);
  for (std::size_t index = 0; index < config_.num_hidden_layers; ++index)
    layers_.emplace_back(communicator_, qwen3_layer_unit(config_, index), options.types, pool_);
}

std::vector<FsdpUnit*> Qwen3::units() {
  std::vector<FsdpUnit*> all{&root_};
  for (FsdpUnit& layer : layers_) all.push_back(&layer);
  return all;
}

void Qwen3::initialize(const FsdpUnit::Fill& fill) {
  for (FsdpUnit* unit : units()) unit->initialize(fill);
}

void Qwen3::initialize_fresh(std::uint64_t seed) {
  initialize([&](const ParameterSpec& spec, RowRange rows, std::span<float> out) {
    const bool is_norm = spec.shape.size() == 1;
    const std::uint64_t key = splitmix64(fnv1a(spec.name) ^ seed);
    const std::uint64_t first = rows.begin * (is_norm ? 1 : spec.shape[1]);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          is_norm ? 1.0f : static_cast<float>(config_.initializer_range) * generated_normal(key, first + i);
  });
}

void Qwen3::initialize_from(const Checkpoint& checkpoint) {
  initialize([&](const ParameterSpec& spec, RowRange rows, std::span<float> out) {
    read_rows(checkpoint.at(spec.name, spec.shape), rows, DataType::f32, std::as_writable_bytes(out));
  });
}

double Qwen3::forward(std::span<const std::int64_t> ids, TokenShape shape) {
  if (ids.size() != shape.tokens())
    fail(ErrorKind::invalid_argument, "ids has {} elements, expected {} samples x {} tokens", ids.size(),
         shape.samples, shape.length);
  shape_ = shape;
  ids_.assign(ids.begin(), ids.end());
  labels_ = next_token_labels(ids, shape);
  kept_.clear();
  kept_.resize(layers_.size());
  root_.unshard(qwen3_scope::forward(root_));
  hidden_ = Values(compute_, shape.tokens() * config_.hidden_size);
  compute_.gather_rows(ids_, root_.weight(embedding), config_.hidden_size, hidden_);
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    FsdpUnit& unit = layers_[index];
    unit.unshard(qwen3_scope::forward(unit));
    // A rank without samples still takes part in every collective.
    if (shape.samples > 0) hidden_ = layer_.forward(unit, shape, std::move(hidden_), kept_[index]);
    unit.reshard();
  }
  normed_ = Values(compute_, hidden_.size());
  inverse_rms_ = Values(compute_, shape.tokens());
  logits_ = {};
  if (shape.samples > 0) {
    compute_.rms_norm(hidden_, root_.weight(final_norm), static_cast<float>(config_.rms_norm_eps), normed_,
                      inverse_rms_);
    logits_ = linear(compute_, normed_, root_.weight(head_parameter()), shape.tokens());
  }
  return mean_loss(labels_);
}

// A mean of the ranks' means would be wrong where ranks have unequally many labels.
double Qwen3::mean_loss(std::span<const std::int64_t> labels) {
  log_sum_exp_ = Values(compute_, shape_.tokens());
  CrossEntropy mine;
  if (shape_.samples > 0) mine = compute_.cross_entropy(logits_, labels, log_sum_exp_);
  const auto [loss, rows] =
      sum_over_ranks(*communicator_, qwen3_scope::loss, {mine.loss_sum, static_cast<double>(mine.rows)});
  if (rows == 0) fail(ErrorKind::invalid_argument, "no rank has a label: samples need at least two tokens");
  total_labels_ = rows;
  return loss / rows;
}

void Qwen3::backward(float loss_scale) {
  Values gradient(compute_, hidden_.size());
  if (shape_.samples > 0) {
    // The ranks' gradients are averaged: times the number of ranks they add up to the mean over all labels.
    const float scale = loss_scale * static_cast<float>(communicator_->size() / total_labels_);
    Values d_logits(compute_, logits_.size());
    compute_.cross_entropy_backward(logits_, labels_, log_sum_exp_, scale, d_logits);
    const Values d_normed = linear_backward(compute_, d_logits, normed_, root_.weight(head_parameter()),
                                            root_.gradient(head_parameter()), shape_.tokens());
    compute_.rms_norm_backward(d_normed, hidden_, root_.weight(final_norm), inverse_rms_, gradient,
                               root_.gradient(final_norm));
  }
  for (std::size_t index = layers_.size(); index-- > 0;) {
    FsdpUnit& unit = layers_[index];
    unit.unshard(qwen3_scope::backward(unit));
    // The next layer's gather goes on while this one's gradients are made.
    if (index > 0) layers_[index - 1].begin_unshard(qwen3_scope::backward(layers_[index - 1]));
    if (shape_.samples > 0) gradient = layer_.backward(unit, shape_, std::move(gradient), kept_[index]);
    kept_[index] = {};
    unit.reshard();
    unit.reduce_gradients(qwen3_scope::reduce(unit));
  }
  if (shape_.samples > 0)
    compute_.scatter_add_rows(ids_, gradient, config_.hidden_size, root_.gradient(embedding));
  root_.reshard();
  root_.reduce_gradients(qwen3_scope::reduce(root_));
}

double Qwen3::gradient_norm() {
  double squares = 0;
  for (FsdpUnit* unit : units())
    for (std::size_t p = 0; p < unit->parameter_count(); ++p)
      squares += compute_.sum_of_squares(unit->gradient_shard(p));
  return std::sqrt(sum_over_ranks(*communicator_, qwen3_scope::gradient_norm, {squares, 0})[0]);
}

void Qwen3::scale_gradients(float factor) {
  for (FsdpUnit* unit : units())
    for (std::size_t p = 0; p < unit->parameter_count(); ++p) compute_.scale(unit->gradient_shard(p), factor);
}

void Qwen3::zero_gradients() {
  for (FsdpUnit* unit : units()) unit->zero_gradients();
}

void Qwen3::step(const AdamW& options, std::int64_t step) {
  for (FsdpUnit* unit : units()) unit->step(options, step);
}

}  // namespace rondo
