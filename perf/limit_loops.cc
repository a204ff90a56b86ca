#include "perf/limit_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rondo {
namespace {

// The loops are made for some numbers of sources and targets; 0 stands for any other.
constexpr int number_of(int made_for, std::size_t there) {
  return made_for != 0 ? made_for : static_cast<int>(there);
}

template <int Sources, int Targets>
void add_plain(const LimitLoop& loop) {
  const int sources = number_of(Sources, loop.sources.size()),
            targets = number_of(Targets, loop.targets.size());
  const float* const* from = loop.sources.data();
  float* const* to = loop.targets.data();
  for (std::size_t i = 0; i < loop.count; ++i) {
    float sum = from[0][i];
    for (int s = 1; s < sources; ++s) sum += from[s][i];
    for (int t = 0; t < targets; ++t) to[t][i] = sum;
  }
}

#if defined(__x86_64__)

template <int Sources, int Targets, bool streaming>
__attribute__((target("avx2"))) void add_avx2(const LimitLoop& loop) {
  const int sources = number_of(Sources, loop.sources.size()),
            targets = number_of(Targets, loop.targets.size());
  const float* const* from = loop.sources.data();
  float* const* to = loop.targets.data();
  for (std::size_t i = 0; i < loop.count; i += 16) {
    __m256 a = _mm256_load_ps(from[0] + i), b = _mm256_load_ps(from[0] + i + 8);
    for (int s = 1; s < sources; ++s) {
      a = _mm256_add_ps(a, _mm256_load_ps(from[s] + i));
      b = _mm256_add_ps(b, _mm256_load_ps(from[s] + i + 8));
    }
    for (int t = 0; t < targets; ++t) {
      if (streaming) {
        _mm256_stream_ps(to[t] + i, a);
        _mm256_stream_ps(to[t] + i + 8, b);
      } else {
        _mm256_store_ps(to[t] + i, a);
        _mm256_store_ps(to[t] + i + 8, b);
      }
    }
  }
  if (streaming) _mm_sfence();
}

template <int Sources, int Targets, bool streaming>
__attribute__((target("avx512f"))) void add_avx512(const LimitLoop& loop) {
  const int sources = number_of(Sources, loop.sources.size()),
            targets = number_of(Targets, loop.targets.size());
  const float* const* from = loop.sources.data();
  float* const* to = loop.targets.data();
  for (std::size_t i = 0; i < loop.count; i += 32) {
    __m512 a = _mm512_load_ps(from[0] + i), b = _mm512_load_ps(from[0] + i + 16);
    for (int s = 1; s < sources; ++s) {
      a = _mm512_add_ps(a, _mm512_load_ps(from[s] + i));
      b = _mm512_add_ps(b, _mm512_load_ps(from[s] + i + 16));
    }
    for (int t = 0; t < targets; ++t) {
      if (streaming) {
        _mm512_stream_ps(to[t] + i, a);
        _mm512_stream_ps(to[t] + i + 16, b);
      } else {
        _mm512_store_ps(to[t] + i, a);
        _mm512_store_ps(to[t] + i + 16, b);
      }
    }
  }
  if (streaming) _mm_sfence();
}

template <int Sources, int Targets>
void add(const LimitLoop& loop, bool streaming) {
  if (__builtin_cpu_supports("avx512f"))
    return streaming ? add_avx512<Sources, Targets, true>(loop) : add_avx512<Sources, Targets, false>(loop);
  if (__builtin_cpu_supports("avx2"))
    return streaming ? add_avx2<Sources, Targets, true>(loop) : add_avx2<Sources, Targets, false>(loop);
  add_plain<Sources, Targets>(loop);
}

#else

template <int Sources, int Targets>
void add(const LimitLoop& loop, bool) {
  add_plain<Sources, Targets>(loop);
}

#endif

template <int Ranks>
void add_for(const LimitLoop& loop, bool streaming) {
  if (loop.sources.size() == 1) return add<1, Ranks>(loop, streaming);
  if (loop.targets.size() == 1) return add<Ranks, 1>(loop, streaming);
  add<Ranks, Ranks>(loop, streaming);
}

}  // namespace

void run_limit_loop(const LimitLoop& loop, bool streaming) {
  switch (loop.sources.size() > loop.targets.size() ? loop.sources.size() : loop.targets.size()) {
    case 2:
      return add_for<2>(loop, streaming);
    case 4:
      return add_for<4>(loop, streaming);
    case 8:
      return add_for<8>(loop, streaming);
    default:
      return add<0, 0>(loop, streaming);
  }
}

}  // namespace rondo
