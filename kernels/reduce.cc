#include "kernels/reduce.h"

#include "kernels/reduce_kernel.h"

namespace rondo {
namespace {

using KernelTable = ReduceKernel (*)(DataType, ReduceOp);

KernelTable best_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return reduce_kernel_avx512;
  if (__builtin_cpu_supports("avx2")) return reduce_kernel_avx2;
#endif
  return reduce_kernel_plain;
}

}  // namespace

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
            Result result, std::span<std::byte* const> targets, std::size_t count) {
  static const KernelTable kernels = best_kernels();
  kernels(reduction.type, reduction.op)({sources.data(), sources.size(), first == FirstSource::partial,
                                         result == Result::complete, targets.data(), targets.size(), count,
                                         reduction.scalar, reduction.ranks});
}

}  // namespace rondo
