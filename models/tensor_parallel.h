// The operators where a tensor-parallel layer communicates, forward and backward, over the ranks of a
// communicator. Source: Shoeybi et al., "Megatron-LM" (2019), section 3, whose conjugate operators f and g
// these are.
//
// A product whose weight is cut by columns takes an x that all ranks have; f stands before it. One whose
// weight is cut by rows leaves on each rank a part of a sum; g stands after it. Outputs cut by columns are
// put together by gather.
//
//            forward                    backward, megatron          backward, dual
//   f        identity                   all-reduce                  identity
//   g        all-reduce                 identity                    all-reduce (on a copy)
//   gather   all-gather of the columns  own columns                 reduce-scatter of the columns
//
// With megatron a gradient of something that all ranks have is whole, and the same, on every rank. With dual
// each operator's backward is its transpose: such a gradient is a rank's own part of a sum over the ranks,
// which only sum_leaf() adds up. The gradient that enters the backward pass is such a part, too: 1/N of the
// whole.
//
// All tensors are f32, row-major, and the caller's, in the Compute's memory. Every function is collective,
// and its bytes are booked under the ledger's scope of the moment. Throws what the communicator throws.
#pragma once

#include <chrono>
#include <span>

#include "models/compute.h"
#include "src/communicator.h"

namespace rondo {

enum class Conjugates { megatron, dual };
const char* name_of(Conjugates conjugates);

class TensorParallel {
 public:
  // The communicator and the Compute, where the tensors are, must outlive it.
  TensorParallel(Communicator& communicator, Conjugates conjugates, Compute& compute = cpu_compute())
      : communicator_(communicator), compute_(compute), conjugates_(conjugates) {}

  Communicator& communicator() const { return communicator_; }
  Compute& compute() const { return compute_; }
  Conjugates conjugates() const { return conjugates_; }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  // Overwrites the gradient of f's output by that of its input.
  void f_backward(std::span<float> gradient);

  // Overwrites this rank's part of a sum by the sum.
  void g_forward(std::span<float> values);
  // The gradient of g's input for that of its output: the same memory where it is the same gradient, else
  // `room`, of equal size. The gradient itself stays as it is, since a residual branch shares it.
  std::span<const float> g_backward(std::span<const float> gradient, std::span<float> room);

  // mine [rows, columns / N] are columns of all [rows, columns]: rank r's are the r-th run. Each lands
  // straight in its place.
  void gather_forward(std::span<const float> mine, std::size_t rows, std::span<float> all);
  // Overwrites mine, the gradient of gather's input, for that of its output.
  void gather_backward(std::span<const float> all, std::size_t rows, std::span<float> mine);

  // The gradient of a leaf that all ranks have, such as x: with dual the sum of the ranks' parts. Nothing to
  // do with megatron.
  void sum_leaf(std::span<float> gradient);

  // Throws invalid_argument on every rank unless all ranks hold the same bits; `name` stands in the message.
  // The values are the host's. Compares hashes: 16 bytes are reduced.
  void need_same(const char* name, std::span<const float> values);

  // Time spent in calls so far, waiting for slower ranks included. On a device that is the time to start
  // them.
  std::chrono::nanoseconds communication_time() const { return communication_time_; }

 private:
  void all_reduce(std::span<const float> from, std::span<float> to);
  void reduce_scatter_columns(std::span<const float> all, std::size_t rows, std::span<float> mine);
  void run(Call call);

  Communicator& communicator_;
  Compute& compute_;
  Conjugates conjugates_;
  std::chrono::nanoseconds communication_time_{0};
};

}  // namespace rondo
