// Every kernel of the models, as it is given to a device: a plain struct with the addresses and sizes that it
// works on, and run(), which does one thread's part. What a buffer holds, and its shape, stands with the
// function of the same name for the CPU.
#pragma once

#include <variant>

#include "kernels/device/model/attention.h"
#include "kernels/device/model/convert.h"
#include "kernels/device/model/cross_entropy.h"
#include "kernels/device/model/elements.h"
#include "kernels/device/model/embedding.h"
#include "kernels/device/model/norm.h"
#include "kernels/device/model/rope.h"

namespace rondo::device {

using ModelWork =
    std::variant<Add, Scale, CopyRows, Swiglu, SwigluBackward, Gelu, GeluBackward, AdamWUpdate, SumOfSquares,
                 ToF32, FromF32, GatherRows, ScatterAddRows, RmsNorm, RmsNormBackward, RmsNormWeightGradient,
                 LayerNorm, LayerNormBackward, Rotate, Attention, AttentionQueryGradient,
                 AttentionKeyValueGradient, CrossEntropyLosses, CrossEntropyBackward>;

}  // namespace rondo::device
