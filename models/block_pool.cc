#include "models/block_pool.h"

#include <utility>

namespace rondo {

BlockPool::Block& BlockPool::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = std::move(other.memory_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void BlockPool::Block::release() {
  if (memory_) pool_->free_[bytes_].push_back(std::move(memory_));
  bytes_ = 0;
}

BlockPool::Block BlockPool::take(std::size_t bytes) {
  std::vector<Memory>& free = free_[bytes];
  if (free.empty())
    return {*this, Memory(compute_.allocate(bytes, Compute::MemoryFor::exchange), Free{&compute_, bytes}),
            bytes};
  Memory memory = std::move(free.back());
  free.pop_back();
  return {*this, std::move(memory), bytes};
}

}  // namespace rondo
