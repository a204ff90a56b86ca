// Products of row-major f32 matrices on the CPU, by oneDNN's sgemm. (Cached matmul primitives were measured:
// the same speed from 16 x 512 x 512 up, and slower below.)
#pragma once

#include <cstddef>
#include <span>

namespace rondo {

// A view of a row-major matrix in memory that somebody else owns: rows x cols, stride elements from row to
// row. Throws Error (invalid_argument) if the values do not hold that many, or the stride is less than cols.
class Matrix {
 public:
  Matrix(std::span<const float> values, std::size_t rows, std::size_t cols)
      : Matrix(values, rows, cols, cols) {}
  Matrix(std::span<const float> values, std::size_t rows, std::size_t cols, std::size_t stride);

  const float* data() const { return data_; }
  std::size_t rows() const { return transposed_ ? cols_ : rows_; }
  std::size_t cols() const { return transposed_ ? rows_ : cols_; }
  std::size_t stride() const { return stride_; }
  bool is_transposed() const { return transposed_; }

  // The transpose, a view of the same memory.
  Matrix transposed() const {
    Matrix result = *this;
    result.transposed_ = !transposed_;
    return result;
  }

 private:
  const float* data_;
  std::size_t rows_;
  std::size_t cols_;
  std::size_t stride_;
  bool transposed_ = false;
};

// The same for a matrix that is written.
class MutableMatrix {
 public:
  MutableMatrix(std::span<float> values, std::size_t rows, std::size_t cols)
      : MutableMatrix(values, rows, cols, cols) {}
  MutableMatrix(std::span<float> values, std::size_t rows, std::size_t cols, std::size_t stride)
      : view_(values, rows, cols, stride), data_(values.data()) {}

  float* data() const { return data_; }
  std::size_t rows() const { return view_.rows(); }
  std::size_t cols() const { return view_.cols(); }
  std::size_t stride() const { return view_.stride(); }
  operator Matrix() const { return view_; }

 private:
  Matrix view_;
  float* data_;
};

// Reads as the formula reads: matmul(x, transposed(w), y).
inline Matrix transposed(const Matrix& matrix) { return matrix.transposed(); }

// c = a b, and c += a b, for a [m, k], b [k, n], c [m, n], k at least 1; c overlaps neither a nor b. May be
// called from any number of threads. Throws Error: invalid_argument if the shapes do not fit together,
// internal if oneDNN refuses.
void matmul(Matrix a, Matrix b, MutableMatrix c);
void matmul_add(Matrix a, Matrix b, MutableMatrix c);

// Throws invalid_argument unless c = a b is possible.
void check_product(const Matrix& a, const Matrix& b, const MutableMatrix& c);

// The number of threads that products called from this thread may use: 1 until set, since ranks fill the
// cores. A process that forks ranks must not have used more before: OpenMP's threads do not survive a fork.
// Throws Error (invalid_argument) unless count is at least 1.
void set_compute_threads(int count);

}  // namespace rondo
