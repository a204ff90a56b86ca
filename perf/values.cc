#include "perf/values.h"

#include <algorithm>
#include <cstdint>

namespace rondo {
namespace {

// A multiplicative hash: neighbours in rank and place get numbers far from one another.
std::uint32_t mix(std::size_t i, int rank) {
  auto x = static_cast<std::uint32_t>(i) * 2654435761u ^ static_cast<std::uint32_t>(rank + 1) * 2246822519u;
  x ^= x >> 15;
  x *= 3266489917u;
  return x ^ (x >> 13);
}

// Sums up to this are exact.
double exact_limit(DataType type) {
  switch (type) {
    case DataType::bf16:
      return 256;
    case DataType::f16:
      return 2048;
    case DataType::i8:
    case DataType::u8:
    case DataType::i32:
    case DataType::u32:
    case DataType::i64:
    case DataType::u64:
    case DataType::f32:
    case DataType::f64:
      return 1 << 20;
  }
  return 0;
}

bool is_float(DataType type) {
  return type == DataType::f16 || type == DataType::f32 || type == DataType::f64 || type == DataType::bf16;
}

// 0, 1, ... : as many different terms as the sum over all ranks allows, the pre-multiplied ones too.
double term(const Numbers& numbers, int rank, std::size_t i) {
  const auto most =
      static_cast<std::uint32_t>(std::clamp(exact_limit(numbers.type) / (2.0 * numbers.ranks), 1.0, 13.0));
  return mix(i, rank) % (most + 1);
}

// 1 or -1, which the integers without sign have too, and 2 from one of the ranks.
double factor(const Numbers& numbers, int rank, std::size_t i) {
  const bool large = mix(i, -1) % static_cast<std::uint32_t>(numbers.ranks) == static_cast<unsigned>(rank);
  return (mix(i, rank) & 1 ? -1.0 : 1.0) * (large ? 2.0 : 1.0);
}

template <typename T>
double truncated_average(double sum, int ranks) {
  // The library's sum wraps first, and is then divided.
  const T wrapped = static_cast<T>(static_cast<std::int64_t>(sum));
  return static_cast<double>(wrapped / static_cast<T>(ranks));
}

double average(DataType type, double sum, int ranks) {
  switch (type) {
    case DataType::i8:
      return truncated_average<std::int8_t>(sum, ranks);
    case DataType::u8:
      return truncated_average<std::uint8_t>(sum, ranks);
    case DataType::i32:
    case DataType::u32:
    case DataType::i64:
    case DataType::u64:
      return truncated_average<std::int64_t>(sum, ranks);
    case DataType::f16:
    case DataType::bf16:
    case DataType::f32:
      return static_cast<float>(sum) / static_cast<float>(ranks);
    case DataType::f64:
      return sum / ranks;
  }
  return 0;
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
  }
  return 0;
}

}  // namespace

double input_value(const Numbers& numbers, int rank, std::size_t i) {
  if (!numbers.reduces) return mix(i, rank) % 127;
  switch (numbers.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return term(numbers, rank, i);
    case ReduceOp::prod:
      return factor(numbers, rank, i);
    case ReduceOp::max:
    case ReduceOp::min:
      return mix(i, rank) % 127 - (is_float(numbers.type) ? 63.0 : 0.0);
  }
  return 0;
}

double reduced_value(const Numbers& numbers, std::size_t i) {
  const bool multiplied = numbers.op == ReduceOp::premul_sum;
  double result = 0;
  for (int rank = 0; rank < numbers.ranks; ++rank) {
    const double input = input_value(numbers, rank, i) * (multiplied ? pre_multiplier : 1);
    result = rank == 0 ? input : combine(numbers.op, result, input);
  }
  return numbers.op == ReduceOp::avg ? average(numbers.type, result, numbers.ranks) : result;
}

}  // namespace rondo
