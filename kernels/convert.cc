#include "kernels/convert.h"

#include <cstring>

#include "kernels/half.h"
#include "kernels/shape_check.h"

namespace rondo {
namespace {

template <typename T>
void widen(std::span<const std::byte> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    to[i] = to_f32(value);
  }
}

template <typename Round>
void narrow(std::span<const float> from, std::span<std::byte> to, Round round) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto value = round(from[i]);
    std::memcpy(to.data() + i * sizeof value, &value, sizeof value);
  }
}

[[noreturn]] void refuse(DataType type) {
  fail(ErrorKind::invalid_argument, "cannot convert between f32 and {}; expected f16, bf16 or f32",
       name_of(type));
}

}  // namespace

void to_f32(std::span<const std::byte> from, DataType type, std::span<float> to) {
  expect_size("to_f32: bytes", from.size(), to.size() * size_of(type));
  if (type == DataType::f16) return widen<Half>(from, to);
  if (type == DataType::bf16) return widen<BFloat16>(from, to);
  if (type != DataType::f32) refuse(type);
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

void from_f32(std::span<const float> from, DataType type, std::span<std::byte> to) {
  expect_size("from_f32: bytes", to.size(), from.size() * size_of(type));
  if (type == DataType::f16) return narrow(from, to, [](float value) { return to_f16(value); });
  if (type == DataType::bf16) return narrow(from, to, [](float value) { return to_bf16(value); });
  if (type != DataType::f32) refuse(type);
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace rondo
