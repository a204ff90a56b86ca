#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/arithmetic.h"
#include "kernels/half.h"
#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::random_values;

// Sizes around the width of vector registers; an odd start of the bytes.
class Convert : public testing::TestWithParam<std::size_t> {
 protected:
  std::vector<float> round_trip(DataType type) const {
    const std::size_t count = values_.size();
    std::vector<std::byte> memory(count * size_of(type) + 2, sentinel);
    const auto bytes = std::span(memory).subspan(1, count * size_of(type));
    std::vector<float> back(count);
    from_f32(values_, type, bytes);
    to_f32(bytes, type, back);
    EXPECT_EQ(memory.front(), sentinel);
    EXPECT_EQ(memory.back(), sentinel);
    return back;
  }

  static constexpr std::byte sentinel{0xA5};
  const std::vector<float> values_ = random_values(GetParam(), 1);
};

INSTANTIATE_TEST_SUITE_P(Counts, Convert, testing::Values(0, 1, 7, 8, 15, 16, 17, 1000));

TEST_P(Convert, RoundsEachElement) {
  const auto f16 = round_trip(DataType::f16);
  const auto bf16 = round_trip(DataType::bf16);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    EXPECT_EQ(f16[i], to_f32(to_f16(values_[i])));
    EXPECT_EQ(bf16[i], to_f32(to_bf16(values_[i])));
  }
  EXPECT_EQ(round_trip(DataType::f32), values_);
}

TEST(ConvertErrors, RefusesOtherTypesAndSizes) {
  std::vector<float> values(4);
  std::vector<std::byte> bytes(16);
  EXPECT_THROW(from_f32(values, DataType::i32, bytes), Error);
  EXPECT_THROW(to_f32(bytes, DataType::u32, values), Error);
  EXPECT_THROW(from_f32(values, DataType::f16, bytes), Error);
  EXPECT_THROW(to_f32(bytes, DataType::bf16, values), Error);
}

TEST(Arithmetic, AddsAndScales) {
  std::vector<float> y = {1.0f, 2.0f, 3.0f};
  const std::vector<float> x = {10.0f, 20.0f, 30.0f};
  add(y, x);
  EXPECT_EQ(y, (std::vector<float>{11.0f, 22.0f, 33.0f}));
  add_scaled(y, -0.5f, x);
  EXPECT_EQ(y, (std::vector<float>{6.0f, 12.0f, 18.0f}));
  EXPECT_THROW(add(y, std::vector<float>(2)), Error);
  EXPECT_THROW(add_scaled(y, 1.0f, std::vector<float>(4)), Error);
}

TEST(Arithmetic, SumsSquaresInF64) {
  EXPECT_EQ(sum_of_squares({}), 0.0);
  for (const std::size_t count : {1, 15, 16, 33, 1001}) {
    const std::vector<float> x(count, 1e25f);  // the square is too large for f32
    const double square = double{1e25f} * double{1e25f};
    EXPECT_NEAR(sum_of_squares(x) / square, static_cast<double>(count), 1e-9);
  }
}

}  // namespace
}  // namespace rondo
