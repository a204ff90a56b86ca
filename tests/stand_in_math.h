// What a stand-in device computes with: the kernels' bodies on its streams' threads, and the CPU's products.
#pragma once

#include <cstring>

#include "models/device_compute.h"
#include "tests/stand_in_device.h"

namespace rondo::test {

class StandInMath : public DeviceMath {
 public:
  explicit StandInMath(StandInDevice& device) : device_(device) {}

  void run(DeviceStream stream, const device::ModelWork& work) override {
    std::visit(
        [&](const auto& one) {
          device_.put(stream, [reachable = reachable(one)] {
            for (std::size_t group = groups; group-- > 0;) reachable.run({group, groups, 0, 1});
          });
        },
        work);
  }

  void multiply(DeviceStream stream, const Matrix& a, const Matrix& b, float beta,
                const MutableMatrix& c) override {
    const Matrix left = reachable(a), right = reachable(b);
    const MutableMatrix to({reachable(c.data()), elements(c.rows(), c.cols(), c.stride())}, c.rows(),
                           c.cols(), c.stride());
    device_.put(stream,
                [=] { beta == 0.0f ? rondo::matmul(left, right, to) : rondo::matmul_add(left, right, to); });
  }

 private:
  static constexpr std::size_t groups = 3;

  static std::size_t elements(std::size_t rows, std::size_t cols, std::size_t stride) {
    return (rows - 1) * stride + cols;
  }

  float* reachable(const float* data) const {
    return reinterpret_cast<float*>(device_.alias_of(reinterpret_cast<const std::byte*>(data)));
  }
  Matrix reachable(const Matrix& matrix) const {
    const Matrix stored = matrix.is_transposed() ? transposed(matrix) : matrix;
    const Matrix same({reachable(stored.data()), elements(stored.rows(), stored.cols(), stored.stride())},
                      stored.rows(), stored.cols(), stored.stride());
    return matrix.is_transposed() ? transposed(same) : same;
  }

  // Work is a plain struct: whichever of its words is an address of the device's memory becomes one that the
  // streams can reach.
  template <typename Work>
  Work reachable(Work work) const {
    static_assert(std::is_trivially_copyable_v<Work>);
    for (std::size_t at = 0; at + sizeof(std::byte*) <= sizeof(Work); at += sizeof(std::byte*)) {
      std::byte* word = nullptr;
      std::memcpy(&word, reinterpret_cast<const std::byte*>(&work) + at, sizeof word);
      if (!device_.allocation_of(word)) continue;
      word = device_.alias_of(word);
      std::memcpy(reinterpret_cast<std::byte*>(&work) + at, &word, sizeof word);
    }
    return work;
  }

  StandInDevice& device_;
};

}  // namespace rondo::test
