#include "kernels/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace rondo {
namespace {

// f16 and bf16, as the tests see them.
struct F16 {
  using Type = Half;
  static constexpr int exponent_bits = 5;
  static Half round(float value) { return to_f16(value); }
};
struct Bf16 {
  using Type = BFloat16;
  static constexpr int exponent_bits = 8;
  static BFloat16 round(float value) { return to_bf16(value); }
};

template <typename Format>
class HalfFormat : public testing::Test {
 protected:
  static constexpr int fraction_bits = 15 - Format::exponent_bits;
  static constexpr int bias = (1 << (Format::exponent_bits - 1)) - 1;
  static constexpr std::uint32_t infinity = 0x7FFFu >> fraction_bits << fraction_bits;

  // The value of a positive code by the definition of the format. The code of infinity has the value that
  // would follow the largest number: rounding sees no end of the range.
  static double exact_value(std::uint32_t code) {
    const int exponent = static_cast<int>(code >> fraction_bits);
    const int fraction = static_cast<int>(code & ((1u << fraction_bits) - 1u));
    const int leading = exponent == 0 ? 0 : 1 << fraction_bits;
    return std::ldexp(leading + fraction, std::max(exponent, 1) - bias - fraction_bits);
  }

  // The code nearest to a number, found among all of them; halfway, the even one.
  static std::uint16_t exact_round(float value) {
    const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
    const double magnitude = std::abs(double{value});
    std::uint32_t low = 0;
    std::uint32_t high = infinity;
    if (magnitude >= exact_value(high)) return static_cast<std::uint16_t>(sign | high);
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (exact_value(middle) <= magnitude ? low : high) = middle;
    }
    const double halfway = (exact_value(low) + exact_value(high)) / 2.0;
    const bool up = magnitude > halfway || (magnitude == halfway && low % 2 == 1);
    return static_cast<std::uint16_t>(sign | (up ? high : low));
  }

  static void expect_exact(float value) {
    ASSERT_EQ(Format::round(value).bits, exact_round(value)) << std::hexfloat << value;
    ASSERT_EQ(Format::round(-value).bits, exact_round(-value)) << std::hexfloat << -value;
  }
};

using Formats = testing::Types<F16, Bf16>;
TYPED_TEST_SUITE(HalfFormat, Formats);

TYPED_TEST(HalfFormat, EveryNumberHasItsExactValue) {
  for (std::uint32_t code = 0; code < this->infinity; ++code) {
    const typename TypeParam::Type positive{static_cast<std::uint16_t>(code)};
    const typename TypeParam::Type negative{static_cast<std::uint16_t>(code | 0x8000u)};
    ASSERT_EQ(double{to_f32(positive)}, this->exact_value(code)) << code;
    ASSERT_EQ(double{to_f32(negative)}, -this->exact_value(code)) << code;
    ASSERT_TRUE(std::signbit(to_f32(negative))) << code;
  }
  EXPECT_EQ(to_f32(typename TypeParam::Type{static_cast<std::uint16_t>(this->infinity)}), INFINITY);
  EXPECT_EQ(to_f32(typename TypeParam::Type{static_cast<std::uint16_t>(this->infinity | 0x8000u)}),
            -INFINITY);
}

TYPED_TEST(HalfFormat, EveryCodeRoundTrips) {
  constexpr std::uint32_t quiet = 1u << (TestFixture::fraction_bits - 1);
  for (std::uint32_t code = 0; code <= 0xFFFFu; ++code) {
    const float value = to_f32(typename TypeParam::Type{static_cast<std::uint16_t>(code)});
    const bool nan = (code & 0x7FFFu) > this->infinity;
    ASSERT_EQ(std::isnan(value), nan) << code;
    ASSERT_EQ(TypeParam::round(value).bits, nan ? code | quiet : code);
  }
}

TYPED_TEST(HalfFormat, RoundsAroundEveryNumberAndHalfwayPoint) {
  for (std::uint32_t code = 0; code < this->infinity; ++code) {
    const double here = this->exact_value(code);
    const double next = this->exact_value(code + 1);
    for (const double point : {here, (here + next) / 2.0}) {
      const auto value = static_cast<float>(point);
      ASSERT_EQ(double{value}, point);
      this->expect_exact(value);
      this->expect_exact(std::nextafter(value, INFINITY));
      if (value > 0.0f) this->expect_exact(std::nextafter(value, 0.0f));
    }
  }
}

TYPED_TEST(HalfFormat, RoundsRandomBits) {
  std::mt19937 generator(1);
  for (int i = 0; i < 300000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    if (!std::isnan(value)) this->expect_exact(value);
  }
}

TYPED_TEST(HalfFormat, RoundsExtremes) {
  this->expect_exact(INFINITY);
  this->expect_exact(std::numeric_limits<float>::max());
  this->expect_exact(std::numeric_limits<float>::min());
  this->expect_exact(std::numeric_limits<float>::denorm_min());
}

TYPED_TEST(HalfFormat, EveryKindOfNanStaysNan) {
  for (std::uint32_t fraction : {1u, 0x1000u, 0x1FFFu, 0xFFFFu, 0x400000u, 0x7FFFFFu}) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7F800000u | fraction);
      const auto rounded = TypeParam::round(nan);
      EXPECT_TRUE(std::isnan(to_f32(rounded))) << fraction;
      EXPECT_EQ(rounded.bits >> 15, sign >> 31);
    }
  }
}

TEST(HalfLimits, OverflowBeginsHalfwayToTheNextNumber) {
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(to_f16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(to_bf16(1.00390625f).bits, 0x3F80);  // halfway between 1 and the next number: to even
}

}  // namespace
}  // namespace rondo
