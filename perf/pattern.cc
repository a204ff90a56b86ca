#include "perf/pattern.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

namespace rondo {
namespace {

template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void put_as(DataType type, std::byte* to, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (type) {
    case DataType::i8:
    case DataType::u8:
      return put(to, static_cast<std::uint8_t>(whole));
    case DataType::i32:
    case DataType::u32:
      return put(to, static_cast<std::uint32_t>(whole));
    case DataType::i64:
    case DataType::u64:
      return put(to, whole);
    case DataType::f16:
      return put(to, to_f16(static_cast<float>(value)));
    case DataType::f32:
      return put(to, static_cast<float>(value));
    case DataType::f64:
      return put(to, value);
    case DataType::bf16:
      return put(to, to_bf16(static_cast<float>(value)));
  }
}

}  // namespace

Pattern::Pattern(DataType type, const std::function<double(std::size_t)>& value)
    : element_(size_of(type)), bytes_(period * element_) {
  for (std::size_t i = 0; i < period; ++i) put_as(type, bytes_.data() + i * element_, value(i));
}

template <typename Visit>
void Pattern::for_stretches(std::size_t first, std::size_t count, Visit visit) const {
  for (std::size_t done = 0; done < count;) {
    const std::size_t phase = (first + done) % period, length = std::min(count - done, period - phase);
    visit(done * element_, phase * element_, length * element_);
    done += length;
  }
}

void Pattern::write(std::byte* to, std::size_t first, std::size_t count) const {
  for_stretches(first, count, [&](std::size_t at, std::size_t phase, std::size_t bytes) {
    std::memcpy(to + at, bytes_.data() + phase, bytes);
  });
}

std::size_t Pattern::count_wrong(const std::byte* is, std::size_t first, std::size_t count) const {
  std::size_t wrong = 0;
  for_stretches(first, count, [&](std::size_t at, std::size_t phase, std::size_t bytes) {
    if (std::memcmp(is + at, bytes_.data() + phase, bytes) == 0) return;
    for (std::size_t i = 0; i < bytes; i += element_)
      wrong += std::memcmp(is + at + i, bytes_.data() + phase + i, element_) != 0;
  });
  return wrong;
}

}  // namespace rondo
