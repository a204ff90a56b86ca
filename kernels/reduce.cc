#include "kernels/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/reduce_kernel.h"

namespace rondo {
namespace {

#if defined(__x86_64__)
// Not among the features that all compilers know by name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<NamedReduceKernels> usable_kernels() {
  std::vector<NamedReduceKernels> usable{{"plain", reduce_kernel_plain}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && has_f16c()) usable.push_back({"avx2", reduce_kernel_avx2});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    usable.push_back({"avx512", reduce_kernel_avx512});
#endif
  return usable;
}

// In their cache lines.
bool lie_alike(std::span<std::byte* const> targets) {
  const auto place = [](const std::byte* target) { return reinterpret_cast<std::uintptr_t>(target) % 64; };
  return std::all_of(targets.begin(), targets.end(),
                     [&](const std::byte* target) { return place(target) == place(targets.front()); });
}

// memmove stores whole lines to each target, however that lies; after the first it reads from the nearest
// cache.
void copy_one_by_one(const std::byte* source, std::span<std::byte* const> targets, std::size_t bytes) {
  constexpr std::size_t block = 16384;
  for (std::size_t at = 0; at < bytes; at += block)
    for (std::byte* const target : targets)
      std::memmove(target + at, source + at, std::min(block, bytes - at));
}

}  // namespace

std::span<const NamedReduceKernels> reduce_kernels_of_this_cpu() {
  // Never destroyed: the progress thread may outlive static objects.
  static const auto& usable = *new std::vector<NamedReduceKernels>(usable_kernels());
  return usable;
}

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
            Result result, const Targets& targets, std::size_t count) {
  static const ReduceKernels kernels = reduce_kernels_of_this_cpu().back().kernels;
  kernels(reduction.type, reduction.op)({sources.data(), sources.size(), first == FirstSource::partial,
                                         result == Result::complete, targets.ordinary.data(),
                                         targets.ordinary.size(), targets.streaming.data(),
                                         targets.streaming.size(), count, reduction.scalar, reduction.ranks});
}

void copy(const std::byte* source, const Targets& targets, std::size_t bytes) {
  if (targets.streaming.empty() && (targets.ordinary.size() == 1 || !lie_alike(targets.ordinary)))
    copy_one_by_one(source, targets.ordinary, bytes);
  else
    reduce({DataType::u8, ReduceOp::sum}, std::span(&source, 1), FirstSource::input, Result::complete,
           targets, bytes);
}

}  // namespace rondo
