#include "kernels/matmul.h"

#include <omp.h>

#include <dnnl.hpp>

#include "src/error.h"

namespace rondo {
namespace {

thread_local int compute_threads = 1;

// oneDNN takes as many threads as OpenMP offers. The caller's own OpenMP setting is put back afterwards.
class ComputeThreadsScope {
 public:
  ComputeThreadsScope() { omp_set_num_threads(compute_threads); }
  ~ComputeThreadsScope() { omp_set_num_threads(previous_); }
  ComputeThreadsScope(const ComputeThreadsScope&) = delete;
  ComputeThreadsScope& operator=(const ComputeThreadsScope&) = delete;

 private:
  int previous_ = omp_get_max_threads();
};

dnnl_dim_t dimension(std::size_t extent) { return static_cast<dnnl_dim_t>(extent); }

char transposition(const Matrix& matrix) { return matrix.is_transposed() ? 'T' : 'N'; }

// c = a b + beta c
void multiply(const Matrix& a, const Matrix& b, float beta, const MutableMatrix& c) {
  check_product(a, b, c);
  if (c.rows() == 0 || c.cols() == 0) return;
  const ComputeThreadsScope scope;
  const dnnl_status_t status =
      dnnl_sgemm(transposition(a), transposition(b), dimension(c.rows()), dimension(c.cols()),
                 dimension(a.cols()), 1.0f, a.data(), dimension(a.stride()), b.data(), dimension(b.stride()),
                 beta, c.data(), dimension(c.stride()));
  if (status != dnnl_success) {
    fail(ErrorKind::internal, "dnnl_sgemm of {} x {} by {} x {} returned {}", a.rows(), a.cols(), b.rows(),
         b.cols(), static_cast<int>(status));
  }
}

}  // namespace

Matrix::Matrix(std::span<const float> values, std::size_t rows, std::size_t cols, std::size_t stride)
    : data_(values.data()), rows_(rows), cols_(cols), stride_(stride) {
  const std::size_t needed = rows == 0 ? 0 : (rows - 1) * stride + cols;
  if (stride < cols || values.size() < needed) {
    fail(ErrorKind::invalid_argument, "{} elements do not hold a matrix of {} x {} with stride {}",
         values.size(), rows, cols, stride);
  }
}

void check_product(const Matrix& a, const Matrix& b, const MutableMatrix& c) {
  if (a.cols() == 0 || a.cols() != b.rows() || c.rows() != a.rows() || c.cols() != b.cols()) {
    fail(ErrorKind::invalid_argument, "cannot multiply {} x {} by {} x {} into {} x {}", a.rows(), a.cols(),
         b.rows(), b.cols(), c.rows(), c.cols());
  }
}

void matmul(Matrix a, Matrix b, MutableMatrix c) { multiply(a, b, 0.0f, c); }

void matmul_add(Matrix a, Matrix b, MutableMatrix c) { multiply(a, b, 1.0f, c); }

void set_compute_threads(int count) {
  if (count < 1) fail(ErrorKind::invalid_argument, "{} compute threads, expected 1 or more", count);
  compute_threads = count;
}

}  // namespace rondo
