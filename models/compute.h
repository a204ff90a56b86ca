// Where a model computes: on the CPU, or on a device. The models say what is to be done, and hold what they
// keep in memory that is allocated here; a Compute does it.
//
// Spans of f32 are of the Compute's own memory unless a comment says "host": on a device the host cannot read
// them. What a function of the arithmetic does, and the shapes it takes, stands with the function of the same
// name in kernels/. On a device calls are put on one stream and return before they are done; what takes
// something from the host or gives it something waits for all that is on the stream, and so does a collective
// when others are still to be done. Throws what kernels/ and the communicator throw; device where a device
// fails. A device's is for the thread that made it: threads have each a current device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"
#include "kernels/rope.h"
#include "kernels/types.h"
#include "src/communicator.h"

namespace rondo {

class Values;

class Compute {
 public:
  virtual ~Compute() = default;

  // ---- memory ----
  // Aligned to a cache line at least; what it holds is undefined. Exchanged memory is what collectives are
  // best at.
  enum class MemoryFor { arithmetic, exchange };
  virtual std::byte* allocate(std::size_t bytes, MemoryFor use) = 0;
  virtual void free(std::byte* memory, std::size_t bytes, MemoryFor use) noexcept = 0;
  virtual void clear(std::span<std::byte> memory) = 0;

  // Values that are the host's: the memory itself where the host can read it, else a copy in `room`.
  virtual std::span<const float> on_host(std::span<const float> values, std::vector<float>& room) = 0;
  // The other way round.
  virtual std::span<const float> from_host(std::span<const float> host, Values& room) = 0;
  // `fill` writes all of `to`, through memory of the host's.
  virtual void write(std::span<float> to, const std::function<void(std::span<float>)>& fill) = 0;

  // ---- collectives ----
  // Of this Compute's memory. Null: what is done here after this finds the call done. Else somebody must wait
  // for it.
  virtual std::shared_ptr<PendingCall> start(Communicator& communicator, Call call) = 0;
  void run(Communicator& communicator, Call call);
  // Waits for all that was asked for here. Only then are calls that start() gave nothing for in the ledger.
  // Throws what has failed of it.
  virtual void finish() = 0;

  // ---- arithmetic ----
  virtual void matmul(Matrix a, Matrix b, MutableMatrix c) = 0;
  virtual void matmul_add(Matrix a, Matrix b, MutableMatrix c) = 0;
  virtual void add(std::span<float> y, std::span<const float> x) = 0;
  virtual void scale(std::span<float> y, float factor) = 0;
  virtual double sum_of_squares(std::span<const float> x) = 0;
  // `rows` rows of `width` elements, each buffer with its own distance from row to row.
  virtual void copy_rows(std::span<const float> from, std::size_t from_stride, std::span<float> to,
                         std::size_t to_stride, std::size_t rows, std::size_t width) = 0;
  virtual void to_f32(std::span<const std::byte> from, DataType type, std::span<float> to) = 0;
  virtual void from_f32(std::span<const float> from, DataType type, std::span<std::byte> to) = 0;

  // ids and labels are the host's.
  virtual void gather_rows(std::span<const std::int64_t> ids, std::span<const float> table, std::size_t width,
                           std::span<float> out) = 0;
  virtual void scatter_add_rows(std::span<const std::int64_t> ids, std::span<const float> dout,
                                std::size_t width, std::span<float> dtable) = 0;
  virtual CrossEntropy cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                                     std::span<float> log_sum_exp) = 0;
  virtual void cross_entropy_backward(std::span<const float> logits, std::span<const std::int64_t> labels,
                                      std::span<const float> log_sum_exp, float scale,
                                      std::span<float> dlogits) = 0;

  virtual void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
                        std::span<float> y, std::span<float> inverse_rms) = 0;
  virtual void rms_norm_backward(std::span<const float> dy, std::span<const float> x,
                                 std::span<const float> weight, std::span<const float> inverse_rms,
                                 std::span<float> dx, std::span<float> dweight) = 0;
  virtual void layer_norm(std::span<const float> x, float eps, std::span<float> y,
                          std::span<float> inverse_deviation) = 0;
  virtual void layer_norm_backward(std::span<const float> dy, std::span<const float> y,
                                   std::span<const float> inverse_deviation, std::span<float> dx) = 0;
  virtual void rotate(const RopeTables& tables, Rotation rotation, std::span<float> x, std::size_t length,
                      std::size_t heads) = 0;
  virtual void attention(const AttentionShape& shape, std::span<const float> q, std::span<const float> k,
                         std::span<const float> v, std::span<float> out, std::span<float> probabilities) = 0;
  virtual void attention_backward(const AttentionShape& shape, std::span<const float> dout,
                                  std::span<const float> q, std::span<const float> k,
                                  std::span<const float> v, std::span<const float> probabilities,
                                  std::span<float> dq, std::span<float> dk, std::span<float> dv) = 0;
  virtual void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out) = 0;
  virtual void swiglu_backward(std::span<const float> dout, std::span<const float> gate,
                               std::span<const float> up, std::span<float> dgate, std::span<float> dup) = 0;
  virtual void gelu(std::span<const float> x, std::span<float> y) = 0;
  virtual void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx) = 0;
  virtual void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                          std::span<const float> gradient, std::span<float> first_moment,
                          std::span<float> second_moment) = 0;
};

// The CPU, on the calling thread. It has no state: all share one.
Compute& cpu_compute();

// f32 elements in a Compute's memory, undefined at first. The Compute must outlive them.
class Values {
 public:
  Values() = default;
  Values(Compute& compute, std::size_t count)
      : compute_(&compute), data_(allocate(compute, count)), count_(count) {}
  ~Values() { release(); }
  Values(Values&& other) noexcept { *this = std::move(other); }
  Values& operator=(Values&& other) noexcept;

  std::size_t size() const { return count_; }
  std::span<float> span() { return {data_, count_}; }
  operator std::span<float>() { return {data_, count_}; }
  operator std::span<const float>() const { return {data_, count_}; }

 private:
  static float* allocate(Compute& compute, std::size_t count);
  void release();

  Compute* compute_ = nullptr;
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

// A copy of the host's values.
Values copy_to(Compute& compute, std::span<const float> host);

}  // namespace rondo
