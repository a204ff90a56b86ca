// Host memory that a device's streams copy from and to, and that peers can map (src/window.h). To pin memory
// takes long, so blocks are kept and used again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "src/device.h"

namespace rondo {

class PinnedBlock {
 public:
  PinnedBlock(Device& device, DeviceStream stream, std::size_t bytes);
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  const Device& device() const { return device_; }
  std::span<std::byte> data() const { return memory_.subspan(header_bytes); }
  // A word for a stream to wait at. The values of one use after another grow.
  const std::uint32_t* word() const { return reinterpret_cast<const std::uint32_t*>(memory_.data()); }
  std::uint32_t next_value() { return ++value_; }
  // Lets the stream go on that waits for the value. What was written to data() before is there for it.
  void store(std::uint32_t value) const;

  // No stream uses it any more. Throws.
  void free(DeviceStream stream);

 private:
  static constexpr std::size_t header_bytes = 64;

  Device& device_;
  std::span<std::byte> memory_;
  std::uint32_t value_ = 0;
};

// While one lives, no block is unpinned and nothing of peers' is closed: to do that the driver may wait for
// streams that wait for a call, and who makes the next one for its sake would be kept from it.
class CallAtWork {
 public:
  // If there is none, frees what the calls before have left over. The stream is to be of the device that
  // pinned it. Throws.
  explicit CallAtWork(DeviceStream stream);
  ~CallAtWork();
  CallAtWork(const CallAtWork&) = delete;
  CallAtWork& operator=(const CallAtWork&) = delete;
};

// A block of at least so many bytes. A stream of the device that will use it tells the context to pin it in.
std::unique_ptr<PinnedBlock> take_pinned_block(Device& device, DeviceStream stream, std::size_t bytes);
// From any thread, also the device's own. To be used again: no stream and no peer uses it any more.
void give_back(std::unique_ptr<PinnedBlock> block);
// Peers may still store to it, where they have mapped it: to be freed, some time, and not used again.
void retire(std::unique_ptr<PinnedBlock> block);

// From any thread, also the device's own. Lets go of it when the next call begins while none is at work.
void let_go_between_calls(std::shared_ptr<const void> held) noexcept;
// Lets go of it now. Waits, `most` at the longest, for the calls that are at work, and for the device.
void let_go_now(std::chrono::milliseconds most);

}  // namespace rondo
