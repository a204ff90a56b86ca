// The models' arithmetic on the CPU: kernels/, by the same names.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/activation.h"
#include "kernels/arithmetic.h"
#include "kernels/convert.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "models/compute.h"
#include "src/window.h"

namespace rondo {
namespace {

class CpuCompute : public Compute {
 public:
  // Exchanged memory lies in windows, which peers read and write in place.
  std::byte* allocate(std::size_t bytes, MemoryFor use) override {
    if (use == MemoryFor::exchange)
      return static_cast<std::byte*>(allocate_window(std::max<std::size_t>(bytes, 1)));
    constexpr std::size_t line = 64;
    const std::size_t lines = std::max<std::size_t>((bytes + line - 1) / line, 1);
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(line, lines * line));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void free(std::byte* memory, std::size_t, MemoryFor use) noexcept override {
    if (use == MemoryFor::exchange)
      free_window(memory);
    else
      std::free(memory);
  }
  void clear(std::span<std::byte> memory) override {
    if (!memory.empty()) std::memset(memory.data(), 0, memory.size());
  }

  std::span<const float> on_host(std::span<const float> values, std::vector<float>&) override {
    return values;
  }
  std::span<const float> from_host(std::span<const float> host, Values&) override { return host; }
  void write(std::span<float> to, const std::function<void(std::span<float>)>& fill) override { fill(to); }

  std::shared_ptr<PendingCall> start(Communicator& communicator, Call call) override {
    return communicator.start(std::move(call));
  }
  void finish() override {}

  void matmul(Matrix a, Matrix b, MutableMatrix c) override { rondo::matmul(a, b, c); }
  void matmul_add(Matrix a, Matrix b, MutableMatrix c) override { rondo::matmul_add(a, b, c); }
  void add(std::span<float> y, std::span<const float> x) override { rondo::add(y, x); }
  void scale(std::span<float> y, float factor) override {
    for (float& value : y) value *= factor;
  }
  double sum_of_squares(std::span<const float> x) override { return rondo::sum_of_squares(x); }
  void copy_rows(std::span<const float> from, std::size_t from_stride, std::span<float> to,
                 std::size_t to_stride, std::size_t rows, std::size_t width) override {
    for (std::size_t row = 0; row < rows; ++row)
      std::ranges::copy(from.subspan(row * from_stride, width), to.subspan(row * to_stride, width).begin());
  }
  void to_f32(std::span<const std::byte> from, DataType type, std::span<float> to) override {
    rondo::to_f32(from, type, to);
  }
  void from_f32(std::span<const float> from, DataType type, std::span<std::byte> to) override {
    rondo::from_f32(from, type, to);
  }

  void gather_rows(std::span<const std::int64_t> ids, std::span<const float> table, std::size_t width,
                   std::span<float> out) override {
    rondo::gather_rows(ids, table, width, out);
  }
  void scatter_add_rows(std::span<const std::int64_t> ids, std::span<const float> dout, std::size_t width,
                        std::span<float> dtable) override {
    rondo::scatter_add_rows(ids, dout, width, dtable);
  }
  CrossEntropy cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                             std::span<float> log_sum_exp) override {
    return rondo::cross_entropy(logits, labels, log_sum_exp);
  }
  void cross_entropy_backward(std::span<const float> logits, std::span<const std::int64_t> labels,
                              std::span<const float> log_sum_exp, float scale,
                              std::span<float> dlogits) override {
    rondo::cross_entropy_backward(logits, labels, log_sum_exp, scale, dlogits);
  }

  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, std::span<float> y,
                std::span<float> inverse_rms) override {
    rondo::rms_norm(x, weight, eps, y, inverse_rms);
  }
  void rms_norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> weight,
                         std::span<const float> inverse_rms, std::span<float> dx,
                         std::span<float> dweight) override {
    rondo::rms_norm_backward(dy, x, weight, inverse_rms, dx, dweight);
  }
  void layer_norm(std::span<const float> x, float eps, std::span<float> y,
                  std::span<float> inverse_deviation) override {
    rondo::layer_norm(x, eps, y, inverse_deviation);
  }
  void layer_norm_backward(std::span<const float> dy, std::span<const float> y,
                           std::span<const float> inverse_deviation, std::span<float> dx) override {
    rondo::layer_norm_backward(dy, y, inverse_deviation, dx);
  }
  void rotate(const RopeTables& tables, Rotation rotation, std::span<float> x, std::size_t length,
              std::size_t heads) override {
    rondo::rotate(tables, rotation, x, length, heads);
  }
  void attention(const AttentionShape& shape, std::span<const float> q, std::span<const float> k,
                 std::span<const float> v, std::span<float> out, std::span<float> probabilities) override {
    rondo::attention(shape, q, k, v, out, probabilities);
  }
  void attention_backward(const AttentionShape& shape, std::span<const float> dout, std::span<const float> q,
                          std::span<const float> k, std::span<const float> v,
                          std::span<const float> probabilities, std::span<float> dq, std::span<float> dk,
                          std::span<float> dv) override {
    rondo::attention_backward(shape, dout, q, k, v, probabilities, dq, dk, dv);
  }
  void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out) override {
    rondo::swiglu(gate, up, out);
  }
  void swiglu_backward(std::span<const float> dout, std::span<const float> gate, std::span<const float> up,
                       std::span<float> dgate, std::span<float> dup) override {
    rondo::swiglu_backward(dout, gate, up, dgate, dup);
  }
  void gelu(std::span<const float> x, std::span<float> y) override { rondo::gelu(x, y); }
  void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx) override {
    rondo::gelu_backward(dy, x, dx);
  }
  void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                  std::span<const float> gradient, std::span<float> first_moment,
                  std::span<float> second_moment) override {
    rondo::adamw_step(options, step, parameter, gradient, first_moment, second_moment);
  }
};

}  // namespace

Compute& cpu_compute() {
  static CpuCompute compute;
  return compute;
}

}  // namespace rondo
