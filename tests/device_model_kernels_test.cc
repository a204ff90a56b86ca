// The models' kernels for GPUs, run here as plain functions, group after group, each by one thread or by a
// thread a lane, and held against the CPU's own: the same bits, but for sums of products. Then the same on a
// GPU, where there is one.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/activation.h"
#include "kernels/arithmetic.h"
#include "kernels/convert.h"
#include "kernels/device/model/work.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "tests/gpu.h"
#include "tests/gradient_check.h"

namespace rondo::test {
namespace {

using device::ModelWork;
using Values = std::vector<float>;

// How many groups of lanes share the work here, and by how many threads a group's part is done; nothing: a
// GPU does it.
struct Share {
  std::size_t groups, lanes;
};
using Groups = std::optional<Share>;

class Threads : public device::LanesOnTheCpu {
 public:
  void meet() override { barrier_.arrive_and_wait(); }
  std::array<double, device::group_lanes> exchange(std::size_t lane, double value) override {
    values_[lane] = value;
    meet();
    const auto all = values_;
    meet();
    return all;
  }

 private:
  std::barrier<> barrier_{device::group_lanes};
  std::array<double, device::group_lanes> values_;
};

// Elements that a kernel can reach, between sentinels, which are looked at in the end.
template <typename T>
class Reachable {
 public:
  // NaNs, or what they stand for.
  Reachable(Groups groups, std::size_t count) : count_(count) {
    const std::size_t bytes = (count + 2 * guard) * sizeof(T);
    if (groups) {
      memory_ = std::make_unique<std::byte[]>(bytes);
      base_ = memory_.get();
    } else {
      shared_ = std::make_unique<SharedWithGpu>(bytes);
      base_ = shared_->data();
    }
    std::memset(base_, 0xFF, bytes);
  }
  template <typename Source>
  Reachable(Groups groups, const std::vector<Source>& values) : Reachable(groups, values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  ~Reachable() {
    for (std::size_t i = 0; i < guard * sizeof(T); ++i) {
      EXPECT_EQ(base_[i], std::byte{0xFF}) << "written before the buffer";
      EXPECT_EQ(base_[(guard + count_) * sizeof(T) + i], std::byte{0xFF}) << "written behind the buffer";
    }
  }
  Reachable(const Reachable&) = delete;
  Reachable& operator=(const Reachable&) = delete;

  T* data() { return reinterpret_cast<T*>(base_) + guard; }
  std::span<T> values() { return {data(), count_}; }

 private:
  static constexpr std::size_t guard = 16;
  std::size_t count_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<SharedWithGpu> shared_;
  std::byte* base_;
};

template <typename T, typename U>
void expect_same_bits(Reachable<T>& actual, const std::vector<U>& expected) {
  ASSERT_EQ(actual.values().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(std::memcmp(actual.data() + i, &expected[i], sizeof(T)), 0)
        << "at " << i << ": " << +actual.data()[i] << " for " << +expected[i];
}

class ModelKernels : public ::testing::TestWithParam<Groups> {
 protected:
  void SetUp() override {
    if (!GetParam() && !why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
  }

  Reachable<float> given(const Values& values) const { return {GetParam(), values}; }
  Reachable<float> room(std::size_t count) const { return {GetParam(), count}; }
  Reachable<std::int64_t> given(const std::vector<std::int64_t>& values) const {
    return {GetParam(), values};
  }

  // The last group first: none may count on another.
  static void run(const ModelWork& work) {
    if (!GetParam()) return run_on_gpu(work);
    if (GetParam()->lanes == 1) return run_lane(work, 0, nullptr);
    Threads together;
    std::vector<std::jthread> threads;
    for (std::size_t lane = 0; lane < GetParam()->lanes; ++lane)
      threads.emplace_back([&, lane] { run_lane(work, lane, &together); });
  }

 private:
  static void run_lane(const ModelWork& work, std::size_t lane, Threads* together) {
    const Share share = *GetParam();
    for (std::size_t group = share.groups; group-- > 0;)
      std::visit([&](const auto& one) { one.run({group, share.groups, lane, share.lanes, together}); }, work);
  }
};

INSTANTIATE_TEST_SUITE_P(OnTheCpu, ModelKernels,
                         ::testing::Values(Share{1, 1}, Share{3, 1}, Share{64, 1}, Share{3, 16}),
                         [](const auto& info) {
                           return std::to_string(info.param->groups) + "_groups_of_" +
                                  std::to_string(info.param->lanes);
                         });
INSTANTIATE_TEST_SUITE_P(OnAGpu, ModelKernels, ::testing::Values(std::nullopt),
                         [](const auto&) { return "all_groups"; });

Values copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

struct Rows {
  std::size_t rows, width;
};
// No element, one, fewer and more than lanes, more rows than groups.
constexpr Rows row_shapes[] = {{1, 1}, {3, 7}, {5, 16}, {2, 67}, {130, 33}};
constexpr std::size_t counts[] = {0, 1, 15, 16, 17, 1000, 5003};

TEST_P(ModelKernels, RmsNormHasTheCpusBits) {
  constexpr float eps = 0.25f;
  for (const auto [rows, width] : row_shapes) {
    const Values x = random_values(rows * width, 1), weight = random_values(width, 2);
    const Values dy = random_values(rows * width, 3), before = random_values(width, 4);
    Values y(x.size()), inverse(rows), dx(x.size()), dweight = before;
    rms_norm(x, weight, eps, y, inverse);
    rms_norm_backward(dy, x, weight, inverse, dx, dweight);

    auto on_x = given(x), on_weight = given(weight), on_dy = given(dy), on_dweight = given(before);
    auto on_y = room(x.size()), on_inverse = room(rows), on_dx = room(x.size());
    run(device::RmsNorm{on_x.data(), on_weight.data(), on_y.data(), on_inverse.data(), rows, width, eps});
    run(device::RmsNormBackward{on_dy.data(), on_x.data(), on_weight.data(), on_inverse.data(), on_dx.data(),
                                rows, width});
    run(device::RmsNormWeightGradient{on_dy.data(), on_x.data(), on_inverse.data(), on_dweight.data(), rows,
                                      width});
    expect_same_bits(on_y, y);
    expect_same_bits(on_inverse, inverse);
    expect_same_bits(on_dx, dx);
    expect_same_bits(on_dweight, dweight);
  }
}

TEST_P(ModelKernels, LayerNormHasTheCpusBits) {
  constexpr float eps = 0.25f;
  for (const auto [rows, width] : row_shapes) {
    const Values x = random_values(rows * width, 1), dy = random_values(rows * width, 2);
    Values y(x.size()), inverse(rows), dx(x.size());
    layer_norm(x, eps, y, inverse);
    layer_norm_backward(dy, y, inverse, dx);

    auto on_x = given(x), on_dy = given(dy);
    auto on_y = room(x.size()), on_inverse = room(rows), on_dx = room(x.size());
    run(device::LayerNorm{on_x.data(), on_y.data(), on_inverse.data(), rows, width, eps});
    run(device::LayerNormBackward{on_dy.data(), on_y.data(), on_inverse.data(), on_dx.data(), rows, width});
    expect_same_bits(on_y, y);
    expect_same_bits(on_inverse, inverse);
    expect_same_bits(on_dx, dx);
  }
}

TEST_P(ModelKernels, ActivationsHaveTheCpusBits) {
  for (const std::size_t count : counts) {
    const Values gate = random_values(count, 1), up = random_values(count, 2), dout = random_values(count, 3);
    Values out(count), dgate(count), dup(count), y(count), dx(count);
    swiglu(gate, up, out);
    swiglu_backward(dout, gate, up, dgate, dup);
    gelu(gate, y);
    gelu_backward(dout, gate, dx);

    auto on_gate = given(gate), on_up = given(up), on_dout = given(dout), on_dx = given(dout);
    auto on_out = room(count), on_dgate = room(count), on_dup = room(count), on_y = room(count);
    run(device::Swiglu{on_gate.data(), on_up.data(), on_out.data(), count});
    run(device::SwigluBackward{on_dout.data(), on_gate.data(), on_up.data(), on_dgate.data(), on_dup.data(),
                               count});
    run(device::Gelu{on_gate.data(), on_y.data(), count});
    run(device::GeluBackward{on_dx.data(), on_gate.data(), on_dx.data(), count});  // in place
    expect_same_bits(on_out, out);
    expect_same_bits(on_dgate, dgate);
    expect_same_bits(on_dup, dup);
    expect_same_bits(on_y, y);
    expect_same_bits(on_dx, dx);
  }
}

TEST_P(ModelKernels, ArithmeticHasTheCpusBits) {
  for (const std::size_t count : counts) {
    const Values x = random_values(count, 1), before = random_values(count, 2);
    Values sum = before, scaled = before;
    add(sum, x);
    for (float& value : scaled) value *= 0.3f;

    auto on_x = given(x), on_sum = given(before), on_scaled = given(before);
    run(device::Add{on_x.data(), on_sum.data(), count});
    run(device::Scale{on_scaled.data(), count, 0.3f});
    expect_same_bits(on_sum, sum);
    expect_same_bits(on_scaled, scaled);
  }
}

TEST_P(ModelKernels, SumsOfSquaresAreTheCpus) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{513}, std::size_t{100'003}}) {
    const Values x = random_values(count, 1);
    auto on_x = given(x);
    Reachable<double> sums(GetParam(), device::SumOfSquares::parts);
    run(device::SumOfSquares{on_x.data(), sums.data(), count});
    double sum = 0;
    for (const double part : sums.values()) sum += part;
    EXPECT_NEAR(sum, sum_of_squares(x), 1e-13 * sum);
  }
}

TEST_P(ModelKernels, RowsAreCopiedToTheirPlaces) {
  constexpr std::size_t rows = 37, width = 5, from_stride = 7, to_stride = 6;
  const Values from = random_values(rows * from_stride, 1), before = random_values(rows * to_stride, 2);
  Values to = before;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i) to[row * to_stride + i] = from[row * from_stride + i];
  auto on_from = given(from), on_to = given(before);
  run(device::CopyRows{on_from.data(), on_to.data(), rows, width, from_stride, to_stride});
  expect_same_bits(on_to, to);
}

TEST_P(ModelKernels, AdamWHasTheCpusBits) {
  const AdamW options{1e-2, 0.9, 0.95, 1e-8, 0.1};
  for (const std::size_t count : counts) {
    const Values gradient = random_values(count, 1), start = random_values(count, 2);
    Values parameter = start, first(count), second(count);
    auto on_gradient = given(gradient), on_parameter = given(start);
    auto on_first = given(first), on_second = given(second);
    for (std::int64_t step = 1; step <= 3; ++step) {
      adamw_step(options, step, parameter, gradient, first, second);
      run(device::AdamWUpdate{AdamWStep(options, step), on_gradient.data(), on_parameter.data(),
                              on_first.data(), on_second.data(), count});
    }
    expect_same_bits(on_parameter, parameter);
    expect_same_bits(on_first, first);
    expect_same_bits(on_second, second);
  }
}

TEST_P(ModelKernels, ConversionsHaveTheCpusBits) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    std::vector<std::uint16_t> stored(65'536);
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::uint16_t>(i);
    Values wide(stored.size());
    to_f32(std::as_bytes(std::span(stored)), type, wide);
    Reachable<std::uint16_t> on_stored(GetParam(), stored);
    auto on_wide = room(stored.size());
    run(device::ToF32{on_stored.data(), on_wide.data(), stored.size(), type});
    expect_same_bits(on_wide, wide);

    const Values from = random_values(5003, 1);
    std::vector<std::uint16_t> narrow(from.size());
    from_f32(from, type, std::as_writable_bytes(std::span(narrow)));
    auto on_from = given(from);
    Reachable<std::uint16_t> on_narrow(GetParam(), from.size());
    run(device::FromF32{on_from.data(), on_narrow.data(), from.size(), type});
    expect_same_bits(on_narrow, narrow);
  }
}

TEST_P(ModelKernels, EmbeddingHasTheCpusBits) {
  constexpr std::size_t vocabulary = 11, width = 19;
  const std::vector<std::int64_t> ids{3, 10, 3, 0, 7, 3, 10, 0, 1};
  const Values table = random_values(vocabulary * width, 1), dout = random_values(ids.size() * width, 2);
  Values out(dout.size()), dtable = table;
  gather_rows(ids, table, width, out);
  scatter_add_rows(ids, dout, width, dtable);

  auto on_ids = given(ids);
  auto on_table = given(table), on_dout = given(dout), on_dtable = given(table), on_out = room(out.size());
  run(device::GatherRows{on_ids.data(), on_table.data(), on_out.data(), ids.size(), width});
  run(device::ScatterAddRows{on_ids.data(), on_dout.data(), on_dtable.data(), ids.size(), width});
  expect_same_bits(on_out, out);
  expect_same_bits(on_dtable, dtable);
}

TEST_P(ModelKernels, RopeHasTheCpusBits) {
  constexpr std::size_t samples = 2, length = 9, heads = 3, head_dim = 38;
  const Rope rope(10'000.0f, head_dim, length + 2);
  const Values x = random_values(samples * length * heads * head_dim, 1);
  Values there = x, back = x;
  rope.rotate(there, length, heads);
  rope.rotate_backward(back, length, heads);

  auto on_there = given(x), on_back = given(x);
  Reachable<float> cos(GetParam(), copy_of(rope.tables().cos)), sin(GetParam(), copy_of(rope.tables().sin));
  const auto rotation = [&](float* values, float direction) {
    return device::Rotate{cos.data(), sin.data(), values,       samples * length,
                          length,     heads,      head_dim / 2, direction};
  };
  run(rotation(on_there.data(), 1.0f));
  run(rotation(on_back.data(), -1.0f));
  expect_same_bits(on_there, there);
  expect_same_bits(on_back, back);
}

TEST_P(ModelKernels, CrossEntropyIsTheCpus) {
  for (const std::size_t vocabulary : {1, 5, 300}) {
    constexpr std::size_t rows = 7;
    const auto last = static_cast<std::int64_t>(vocabulary) - 1;
    const std::vector<std::int64_t> labels{0, last, ignore_label, last / 2, 0, last, ignore_label};
    const Values logits = random_values(rows * vocabulary, 1);
    Values log_sum_exp(rows), dlogits(logits.size());
    const CrossEntropy expected = cross_entropy(logits, labels, log_sum_exp);
    cross_entropy_backward(logits, labels, log_sum_exp, 0.3f, dlogits);

    auto on_labels = given(labels);
    auto on_logits = given(logits), on_log_sum = room(rows), on_dlogits = room(logits.size());
    Reachable<double> losses(GetParam(), rows);
    run(device::CrossEntropyLosses{on_logits.data(), on_labels.data(), on_log_sum.data(), losses.data(), rows,
                                   vocabulary});
    double sum = 0;
    for (const double loss : losses.values()) sum += loss;
    // A GPU's logarithm is off by at most one unit in the last place.
    EXPECT_NEAR(sum, expected.loss_sum, 1e-6 * expected.loss_sum + 1e-6);
    for (std::size_t row = 0; row < rows; ++row)
      if (labels[row] != ignore_label) {
        EXPECT_NEAR(on_log_sum.data()[row], log_sum_exp[row], 1e-6f * std::abs(log_sum_exp[row]));
        on_log_sum.data()[row] = log_sum_exp[row];
      }
    run(device::CrossEntropyBackward{on_logits.data(), on_labels.data(), on_log_sum.data(), on_dlogits.data(),
                                     rows, vocabulary, 0.3f});
    expect_same_bits(on_dlogits, dlogits);
  }
}

// With heads of one element the scores are the same: products of two.
TEST_P(ModelKernels, SoftmaxHasTheCpusBits) {
  for (const bool causal : {false, true}) {
    const AttentionShape shape{1, 37, 2, 1, 1, causal};
    const std::size_t tokens = shape.batch * shape.length;
    const std::size_t query = tokens * shape.query_heads, kv = tokens * shape.kv_heads;
    const Values q = random_values(query, 1), k = random_values(kv, 2), v = random_values(kv, 3);
    Values out(query), p(query * shape.length);
    attention(shape, q, k, v, out, p);

    auto on_q = given(q), on_k = given(k), on_v = given(v), on_out = room(query), on_p = room(p.size());
    run(device::Attention{shape, on_q.data(), on_k.data(), on_v.data(), on_out.data(), on_p.data()});
    expect_same_bits(on_p, p);
  }
}

TEST_P(ModelKernels, AttentionIsTheCpus) {
  for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1, 1, true},
                                     {2, 19, 6, 2, 24, true},
                                     {2, 19, 4, 4, 5, false},
                                     {1, 40, 2, 1, 64, true}}) {
    const std::size_t tokens = shape.batch * shape.length;
    const std::size_t query = tokens * shape.query_heads * shape.head_dim;
    const std::size_t kv = tokens * shape.kv_heads * shape.head_dim;
    const std::size_t scores = tokens * shape.query_heads * shape.length;
    const Values q = random_values(query, 1), k = random_values(kv, 2), v = random_values(kv, 3);
    const Values dout = random_values(query, 4);
    Values out(query), p(scores), dq(query), dk(kv), dv(kv);
    attention(shape, q, k, v, out, p);
    attention_backward(shape, dout, q, k, v, p, dq, dk, dv);

    auto on_q = given(q), on_k = given(k), on_v = given(v), on_dout = given(dout);
    auto on_out = room(query), on_p = room(scores), on_scores = room(scores);
    auto on_dq = room(query), on_dk = room(kv), on_dv = room(kv);
    run(device::Attention{shape, on_q.data(), on_k.data(), on_v.data(), on_out.data(), on_p.data()});
    run(device::AttentionQueryGradient{shape, on_dout.data(), on_k.data(), on_v.data(), on_p.data(),
                                       on_dq.data(), on_scores.data()});
    run(device::AttentionKeyValueGradient{shape, on_dout.data(), on_q.data(), on_p.data(), on_scores.data(),
                                          on_dk.data(), on_dv.data()});
    constexpr double limit = 2e-6;
    expect_close(on_p.values(), to_doubles(p), limit);
    expect_close(on_out.values(), to_doubles(out), limit);
    expect_close(on_dq.values(), to_doubles(dq), limit);
    expect_close(on_dk.values(), to_doubles(dk), 5 * limit);
    expect_close(on_dv.values(), to_doubles(dv), 5 * limit);
  }
}

}  // namespace
}  // namespace rondo::test
