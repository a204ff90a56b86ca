// reduce() over extents.
#pragma once

#include <span>
#include <vector>

#include "kernels/reduce.h"
#include "src/extent.h"

namespace rondo {

// All of `sources` and `target` hold the same number of bytes, in pieces of whole elements.
void reduce_extents(const Reduction& reduction, std::span<const Extents> sources, FirstSource first,
                    Result result, const Extents& target);

inline void reduce_extents(const Reduction& reduction, std::initializer_list<Extents> sources,
                           FirstSource first, Result result, const Extents& target) {
  reduce_extents(reduction, std::span(sources.begin(), sources.size()), first, result, target);
}

}  // namespace rondo
