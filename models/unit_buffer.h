// The whole parameters of a unit, or their gradients, one after another in one block: on every rank alike, so
// that peers find their way in it.
#pragma once

#include <span>
#include <vector>

#include "models/block_pool.h"
#include "models/memory.h"

namespace rondo {

class UnitBuffer {
 public:
  UnitBuffer() = default;
  // parameter_bytes: by parameter. The meter and the pool must outlive it.
  UnitBuffer(BlockPool& pool, MemoryMeter& meter, MemoryKind kind,
             std::span<const std::size_t> parameter_bytes);

  bool empty() const { return parameters_.empty(); }
  void release() { *this = {}; }
  std::span<std::byte> bytes(std::size_t parameter) const { return parameters_[parameter]; }
  // The bytes as f32, of which there are bytes / 4.
  std::span<float> floats(std::size_t parameter) const;

 private:
  MeteredBytes metered_;
  BlockPool::Block block_;
  std::vector<std::span<std::byte>> parameters_;
};

}  // namespace rondo
