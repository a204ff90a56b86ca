// The inputs of a collective, and the results that follow from them. All numbers are chosen so that every
// order of summation gives the same bits.
#pragma once

#include <cstddef>

#include "kernels/types.h"

namespace rondo {

struct Numbers {
  DataType type;
  ReduceOp op;
  bool reduces;  // otherwise the op is of no matter, and all values of a byte may stand in the buffers
  int ranks;
};

// Element i of a rank's input.
double input_value(const Numbers& numbers, int rank, std::size_t i);
// Element i of the reduction over all ranks, to be rounded to the type.
double reduced_value(const Numbers& numbers, std::size_t i);
// What premul_sum multiplies every rank's input by: the same on all ranks, as Rondo wants it.
inline constexpr double pre_multiplier = 2;

}  // namespace rondo
