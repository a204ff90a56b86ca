// What the dispatcher (kernels/reduce.cc) and the loops compiled for each instruction set have in common:
// plain data only, since nothing inline may be shared between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace rondo {

struct ReduceArguments {
  const std::byte* const* sources;
  std::size_t source_count;
  bool first_is_partial;  // the first source is a partial result, not a rank's input
  bool complete;          // the result is: avg divides
  std::byte* const* targets;
  std::size_t target_count;
  std::byte* const* streamed;  // targets whose stores pass the caches by
  std::size_t streamed_count;
  std::size_t count;     // elements
  std::uint64_t scalar;  // premul_sum's factor
  int ranks;             // avg's divisor
};

using ReduceKernel = void (*)(const ReduceArguments&);
using ReduceKernels = ReduceKernel (*)(DataType, ReduceOp);

// The kernel of one type and operator, for any x86-64 or other CPU, and for those with AVX2 or AVX-512 (F,
// BW, VL and DQ). All give the same bits.
ReduceKernel reduce_kernel_plain(DataType type, ReduceOp op);
ReduceKernel reduce_kernel_avx2(DataType type, ReduceOp op);
ReduceKernel reduce_kernel_avx512(DataType type, ReduceOp op);

// Those that this CPU can run, the fastest last.
struct NamedReduceKernels {
  const char* name;
  ReduceKernels kernels;
};
std::span<const NamedReduceKernels> reduce_kernels_of_this_cpu();

}  // namespace rondo
