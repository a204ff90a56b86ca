// Element types and reduction operators, numbered as in nccl.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/host_device.h"

namespace rondo {

enum class DataType : int {
  i8 = 0,
  u8 = 1,
  i32 = 2,
  u32 = 3,
  i64 = 4,
  u64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9
};
inline constexpr int data_type_count = 10;

enum class ReduceOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };
inline constexpr int reduce_op_count = 6;

// A floating-point number of 16 bits, as stored: 5 exponent bits (IEEE binary16).
struct Half {
  std::uint16_t bits;
};

// A floating-point number of 16 bits, as stored: the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

RONDO_HOST_DEVICE constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::i8:
    case DataType::u8:
      return 1;
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::i32:
    case DataType::u32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::u64:
    case DataType::f64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::i8:
      return "i8";
    case DataType::u8:
      return "u8";
    case DataType::i32:
      return "i32";
    case DataType::u32:
      return "u32";
    case DataType::i64:
      return "i64";
    case DataType::u64:
      return "u64";
    case DataType::f16:
      return "f16";
    case DataType::f32:
      return "f32";
    case DataType::f64:
      return "f64";
    case DataType::bf16:
      return "bf16";
  }
  return "?";
}

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::premul_sum:
      return "premul_sum";
  }
  return "?";
}

}  // namespace rondo
