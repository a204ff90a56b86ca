// Adds up blocks of f32 from several sources and stores them to several targets, in one pass: the least that
// a host's collective has to do. With the widest vectors that the CPU has.
#pragma once

#include <cstddef>
#include <vector>

namespace rondo {

struct LimitLoop {
  std::vector<const float*> sources;
  std::vector<float*> targets;
  std::size_t count;  // a multiple of limit_block; all addresses are aligned to as much
};

inline constexpr std::size_t limit_block = 32;

// streaming: stores that pass the caches by.
void run_limit_loop(const LimitLoop& loop, bool streaming);

}  // namespace rondo
