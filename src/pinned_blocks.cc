#include "src/pinned_blocks.h"

#include <algorithm>
#include <bit>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/deadline.h"
#include "src/errands.h"
#include "src/error.h"
#include "src/log.h"
#include "src/window.h"

namespace rondo {
namespace {

constexpr std::size_t least_bytes = 64 * 1024;
// Blocks beyond so many bytes together are not kept once no call is at work.
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
    kept_bytes_ += block->data().size();
    kept_.push_back(std::move(block));
  }

  void retire(std::unique_ptr<PinnedBlock> block) {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(block));
  }

  // Calls wait here for one that frees what is left over, never the other way round.
  void begin_call(DeviceStream stream) {
    const std::lock_guard lock(beginning_);
    if (idle()) {
      for (const auto& block : take_superfluous()) block->free(stream);
      take_held().clear();
    }
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  bool idle() const { return calls_.load(std::memory_order_acquire) == 0; }

  void let_go_later(std::shared_ptr<const void> held) {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(held));
  }
  bool holds_any() {
    const std::lock_guard lock(mutex_);
    return !held_.empty();
  }
  void let_go_if_idle() {
    const std::lock_guard lock(beginning_);
    if (idle()) take_held().clear();
  }

  // Also on the device's own threads. Its block is back.
  void end_call() { calls_.fetch_sub(1, std::memory_order_release); }

 private:
  Blocks take_superfluous() {
    const std::lock_guard lock(mutex_);
    Blocks taken = std::exchange(retired_, {});
    for (; kept_bytes_ > most_kept_bytes; kept_.pop_back()) {
      kept_bytes_ -= kept_.back()->data().size();
      taken.push_back(std::move(kept_.back()));
    }
    return taken;
  }

  std::vector<std::shared_ptr<const void>> take_held() {
    const std::lock_guard lock(mutex_);
    return std::exchange(held_, {});
  }

  std::mutex beginning_;  // before mutex_
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  Blocks kept_, retired_;
  std::vector<std::shared_ptr<const void>> held_;  // to be let go
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

CallAtWork::CallAtWork(DeviceStream stream) { Pool::instance().begin_call(stream); }
CallAtWork::~CallAtWork() { Pool::instance().end_call(); }

std::unique_ptr<PinnedBlock> take_pinned_block(Device& device, DeviceStream stream, std::size_t bytes) {
  if (auto block = Pool::instance().take(device, bytes)) return block;
  return std::make_unique<PinnedBlock>(device, stream, bytes);
}

void give_back(std::unique_ptr<PinnedBlock> block) { Pool::instance().keep(std::move(block)); }
void retire(std::unique_ptr<PinnedBlock> block) { Pool::instance().retire(std::move(block)); }

void let_go_between_calls(std::shared_ptr<const void> held) noexcept {
  Pool::instance().let_go_later(std::move(held));
}

// An errand does it, since the driver may keep waiting whoever does.
void let_go_now(std::chrono::milliseconds most) {
  const Deadline deadline = Deadline::after(most);
  Pool& pool = Pool::instance();
  while (pool.holds_any() && !pool.idle() && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (!pool.holds_any()) return;
  const auto done = std::make_shared<std::promise<void>>();
  const std::future<void> is_done = done->get_future();
  run_errand([done, &pool] {
    pool.let_go_if_idle();
    done->set_value();
  });
  is_done.wait_for(deadline.left(most));
}

}  // namespace rondo
