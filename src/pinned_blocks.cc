#include "src/pinned_blocks.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

#include "src/error.h"
#include "src/log.h"
#include "src/window.h"

namespace rondo {
namespace {

constexpr std::size_t least_bytes = 64 * 1024;
// Blocks beyond so many bytes together are not kept.
constexpr std::size_t most_kept_bytes = std::size_t{1} << 30;

// Calls whose sizes go up and down do not each want a block of their own: steps of an eighth.
std::size_t rounded(std::size_t bytes) {
  const std::size_t some = std::max(bytes, least_bytes), step = std::bit_floor(some) / 8;
  return (some + step - 1) / step * step;
}

using Blocks = std::vector<std::unique_ptr<PinnedBlock>>;

class Pool {
 public:
  // Never destroyed: a device's thread may give back a block when the program's static objects have ended.
  static Pool& instance() {
    static auto* const pool = new Pool;
    return *pool;
  }

  // The smallest one that fits, or null.
  std::unique_ptr<PinnedBlock> take(const Device& device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto block = kept_.begin(); block != kept_.end(); ++block) {
      const std::size_t size = (*block)->data().size();
      if (&(*block)->device() == &device && size >= bytes && size <= 2 * std::max(bytes, least_bytes) &&
          (best == kept_.end() || size < (*best)->data().size()))
        best = block;
    }
    if (best == kept_.end()) return nullptr;
    std::unique_ptr<PinnedBlock> taken = std::move(*best);
    kept_.erase(best);
    kept_bytes_ -= taken->data().size();
    return taken;
  }

  void keep(std::unique_ptr<PinnedBlock> block) {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + block->data().size() > most_kept_bytes) return retired_.push_back(std::move(block));
    kept_bytes_ += block->data().size();
    kept_.push_back(std::move(block));
  }

  void retire(std::unique_ptr<PinnedBlock> block) {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(block));
  }
  Blocks take_retired() {
    const std::lock_guard lock(mutex_);
    return std::exchange(retired_, {});
  }

 private:
  std::mutex mutex_;
  Blocks kept_, retired_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace

PinnedBlock::PinnedBlock(Device& device, DeviceStream stream, std::size_t bytes) : device_(device) {
  const std::size_t size = rounded(header_bytes + bytes);
  memory_ = {static_cast<std::byte*>(allocate_window(size)), size};
  try {
    device.pin(stream, memory_);
  } catch (const Error&) {
    free_window(memory_.data());
    throw;
  }
}

void PinnedBlock::store(std::uint32_t value) const {
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(memory_.data()), value, __ATOMIC_RELEASE);
}

void PinnedBlock::free(DeviceStream stream) {
  device_.unpin(stream, memory_.data());
  free_window(memory_.data());
}

std::unique_ptr<PinnedBlock> take_pinned_block(Device& device, DeviceStream stream, std::size_t bytes) {
  for (const auto& block : Pool::instance().take_retired()) block->free(stream);
  if (auto block = Pool::instance().take(device, bytes)) return block;
  return std::make_unique<PinnedBlock>(device, stream, bytes);
}

void give_back(std::unique_ptr<PinnedBlock> block) { Pool::instance().keep(std::move(block)); }
void retire(std::unique_ptr<PinnedBlock> block) { Pool::instance().retire(std::move(block)); }

}  // namespace rondo
