#include "kernels/matmul.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::Doubles;
using test::expect_close;
using test::random_values;

struct Size {
  std::size_t m, k, n;
};

const std::vector<Size> sizes = {{1, 1, 1}, {1, 7, 3}, {5, 1, 9}, {3, 17, 1}, {16, 33, 31}, {67, 129, 65}};

// Element (row, col) of a stored matrix, read transposed if asked.
double element(const std::vector<float>& values, std::size_t stride, bool transposed, std::size_t row,
               std::size_t col) {
  return transposed ? values[col * stride + row] : values[row * stride + col];
}

Matrix operand(const std::vector<float>& values, std::size_t rows, std::size_t cols, std::size_t padding,
               bool is_transposed) {
  if (is_transposed) return transposed(Matrix(values, cols, rows, rows + padding));
  return Matrix(values, rows, cols, cols + padding);
}

// Multiplies with every combination of transposes; padding columns separate the rows of a, b and c.
void check_products(const Size& size, std::size_t padding, bool accumulate) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      SCOPED_TRACE(testing::Message() << size.m << " x " << size.k << " x " << size.n << ", transposed "
                                      << transpose_a << transpose_b << ", padding " << padding);
      const std::size_t a_stride = (transpose_a ? size.m : size.k) + padding;
      const std::size_t b_stride = (transpose_b ? size.k : size.n) + padding;
      const std::size_t c_stride = size.n + padding;
      const auto a = random_values((transpose_a ? size.k : size.m) * a_stride, 1);
      const auto b = random_values((transpose_b ? size.n : size.k) * b_stride, 2);
      auto c = random_values(size.m * c_stride, 3);
      Doubles expected(c.begin(), c.end());
      for (std::size_t i = 0; i < size.m; ++i) {
        for (std::size_t j = 0; j < size.n; ++j) {
          double sum = accumulate ? expected[i * c_stride + j] : 0.0;
          for (std::size_t l = 0; l < size.k; ++l) {
            sum += element(a, a_stride, transpose_a, i, l) * element(b, b_stride, transpose_b, l, j);
          }
          expected[i * c_stride + j] = sum;
        }
      }
      const auto multiply = accumulate ? matmul_add : matmul;
      multiply(operand(a, size.m, size.k, padding, transpose_a),
               operand(b, size.k, size.n, padding, transpose_b), MutableMatrix(c, size.m, size.n, c_stride));
      expect_close(c, expected, 2e-5);
    }
  }
}

TEST(Matmul, MatchesF64ForAllTransposes) {
  for (const Size& size : sizes) check_products(size, 0, false);
}

TEST(Matmul, AddsToTheOutput) {
  for (const Size& size : sizes) check_products(size, 0, true);
}

TEST(Matmul, KeepsWhatLiesBetweenStridedRows) {
  for (const Size& size : sizes) check_products(size, 3, false);
}

TEST(Matmul, OverwritesNaN) {
  const std::vector<float> a = {2.0f}, b = {3.0f};
  std::vector<float> c = {std::numeric_limits<float>::quiet_NaN()};
  matmul(Matrix(a, 1, 1), Matrix(b, 1, 1), MutableMatrix(c, 1, 1));
  EXPECT_EQ(c[0], 6.0f);
}

TEST(Matmul, AcceptsNoRows) {
  const std::vector<float> none, b(6, 1.0f);
  std::vector<float> c;
  EXPECT_NO_THROW(matmul(Matrix(none, 0, 2), Matrix(b, 2, 3), MutableMatrix(c, 0, 3)));
  EXPECT_NO_THROW(matmul(transposed(Matrix(b, 2, 3)), Matrix(none, 2, 0), MutableMatrix(c, 3, 0)));
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  const std::vector<float> a(6), b(6);
  std::vector<float> c(9);
  EXPECT_THROW(matmul(Matrix(a, 2, 3), Matrix(b, 2, 3), MutableMatrix(c, 2, 3)), Error);
  EXPECT_THROW(matmul(Matrix(a, 2, 3), Matrix(b, 3, 2), MutableMatrix(c, 3, 3)), Error);
  EXPECT_THROW(matmul(Matrix(a, 3, 2), Matrix(b, 2, 3), MutableMatrix(c, 2, 3)), Error);
  EXPECT_THROW(matmul(Matrix(a, 3, 0), Matrix(b, 0, 3), MutableMatrix(c, 3, 3)), Error);
  EXPECT_THROW(Matrix(a, 2, 4), Error);
  EXPECT_THROW(Matrix(a, 2, 3, 2), Error);
  EXPECT_NO_THROW(Matrix(a, 2, 2, 4));
}

// Small integers, so that the product is exact: all elements are 64 * 2 * 3.
bool product_is_right() {
  const std::vector<float> a(48 * 64, 2.0f), b(64 * 80, 3.0f);
  std::vector<float> c(48 * 80);
  matmul(Matrix(a, 48, 64), Matrix(b, 64, 80), MutableMatrix(c, 48, 80));
  return std::ranges::all_of(c, [](float value) { return value == 384.0f; });
}

TEST(Matmul, WorksInForkedProcesses) {
  ASSERT_TRUE(product_is_right());
  for (int rank = 0; rank < 4; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a product that waits for threads the fork left behind ends here
      _exit(product_is_right() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": status " << status;
  }
}

TEST(Matmul, WorksInThreadsAtOnce) {
  std::vector<int> right(4, 0);
  std::vector<std::jthread> ranks;
  for (int& result : right) {
    ranks.emplace_back([&result] {
      result = 1;
      for (int i = 0; i < 20; ++i) result = result && product_is_right();
    });
  }
  ranks.clear();
  EXPECT_EQ(right, std::vector<int>(4, 1));
}

// In a thread of its own: OpenMP's threads must not be there when another test forks.
TEST(Matmul, KeepsTheCallersOpenMpSetting) {
  std::jthread([] {
    omp_set_num_threads(3);
    EXPECT_TRUE(product_is_right());
    EXPECT_EQ(omp_get_max_threads(), 3);
  }).join();
}

TEST(Matmul, TakesMoreThreadsWhenAsked) {
  EXPECT_THROW(set_compute_threads(0), Error);
  std::jthread([] {
    set_compute_threads(2);
    EXPECT_TRUE(product_is_right());
  }).join();
}

}  // namespace
}  // namespace rondo
