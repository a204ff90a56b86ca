// A buffer of elements of a type chosen at run time, with sentinels before and behind it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "kernels/half.h"
#include "kernels/types.h"

namespace rondo::test {

inline std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int number = 0; number < data_type_count; ++number) types.push_back(static_cast<DataType>(number));
  return types;
}

// An element's value as a double, and back.
template <typename Visit>
auto with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::i8:
      return visit(std::int8_t{});
    case DataType::u8:
      return visit(std::uint8_t{});
    case DataType::i32:
      return visit(std::int32_t{});
    case DataType::u32:
      return visit(std::uint32_t{});
    case DataType::i64:
      return visit(std::int64_t{});
    case DataType::u64:
      return visit(std::uint64_t{});
    case DataType::f16:
      return visit(Half{});
    case DataType::f32:
      return visit(float{});
    case DataType::f64:
      return visit(double{});
    case DataType::bf16:
      return visit(BFloat16{});
  }
  return visit(double{});
}

inline void set_element(std::byte* at, DataType type, double value) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, Half>)
      element = to_f16(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, BFloat16>)
      element = to_bf16(static_cast<float>(value));
    else
      element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof element);
  });
}

inline double get_element(const std::byte* at, DataType type) {
  return with_type(type, [&](auto element) -> double {
    std::memcpy(&element, at, sizeof element);
    if constexpr (std::is_same_v<decltype(element), Half> || std::is_same_v<decltype(element), BFloat16>)
      return to_f32(element);
    else
      return static_cast<double>(element);
  });
}

class TypedBuffer {
 public:
  // `misalign` moves the elements away from the memory's own alignment, by bytes.
  TypedBuffer(DataType type, std::size_t count, std::size_t misalign = 0)
      : type_(type),
        count_(count),
        start_(guard + misalign),
        memory_(start_ + count * size_of(type) + guard, sentinel) {}
  ~TypedBuffer() { expect_sentinels(); }
  TypedBuffer(const TypedBuffer&) = delete;
  TypedBuffer& operator=(const TypedBuffer&) = delete;

  std::byte* data() { return memory_.data() + start_; }
  // With the sentinels.
  std::span<std::byte> whole() { return memory_; }
  std::size_t start() const { return start_; }
  std::size_t bytes() const { return count_ * size_of(type_); }
  std::byte* at(std::size_t index) { return data() + index * size_of(type_); }
  double get(std::size_t index) { return get_element(at(index), type_); }

  template <typename Value>
  void fill(Value value) {
    for (std::size_t i = 0; i < count_; ++i) set_element(at(i), type_, value(i));
  }

  // Reports the first wrong element only.
  template <typename Value>
  void expect(Value value) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (get(i) == static_cast<double>(value(i))) continue;
      ADD_FAILURE() << "element " << i << " of " << count_ << " " << name_of(type_) << ": " << get(i)
                    << ", expected " << value(i);
      return;
    }
  }

  void expect_sentinels() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (i >= start_ && i < start_ + count_ * size_of(type_)) continue;
      if (memory_[i] == sentinel) continue;
      ADD_FAILURE() << "a byte outside the buffer was written, at "
                    << static_cast<long>(i) - static_cast<long>(start_);
      return;
    }
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr std::byte sentinel{0xA5};

  DataType type_;
  std::size_t count_, start_;
  std::vector<std::byte> memory_;
};

}  // namespace rondo::test
