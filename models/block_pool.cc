#include "models/block_pool.h"

#include <algorithm>
#include <utility>

#include "src/window.h"

namespace rondo {

void BlockPool::FreeWindow::operator()(std::byte* memory) const { free_window(memory); }

BlockPool::Block& BlockPool::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  window_ = std::move(other.window_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void BlockPool::Block::release() {
  if (window_) pool_->free_[bytes_].push_back(std::move(window_));
  bytes_ = 0;
}

BlockPool::Block BlockPool::take(std::size_t bytes) {
  std::vector<Window>& free = free_[bytes];
  if (free.empty())
    return {*this, Window(static_cast<std::byte*>(allocate_window(std::max<std::size_t>(bytes, 1)))), bytes};
  Window window = std::move(free.back());
  free.pop_back();
  return {*this, std::move(window), bytes};
}

}  // namespace rondo
