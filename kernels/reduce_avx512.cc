#include "kernels/reduce_loops.h"

namespace rondo {

ReduceKernel reduce_kernel_avx512(DataType type, ReduceOp op) { return kernel_for(type, op); }

}  // namespace rondo
