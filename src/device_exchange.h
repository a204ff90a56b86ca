// What ranks of one host need so that kernels on their devices can meet without the host: memory on each
// rank's device that all have mapped, and a few words that a rank's kernels share with its host.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/communicator.h"
#include "src/device.h"
#include "src/peer_allocations.h"
#include "src/pinned_blocks.h"

namespace rondo {

// Host memory that this rank's kernels read and write too, where the device has it. All zero at first.
class DeviceControl {
 public:
  // The stream lives as long.
  DeviceControl(Device& device, DeviceStream stream, int size);
  // No kernel uses it any more: it is used again.
  ~DeviceControl();
  DeviceControl(const DeviceControl&) = delete;
  DeviceControl& operator=(const DeviceControl&) = delete;

  // Where kernels find the words.
  struct Addresses {
    std::uint64_t* abort;    // not 0: kernels end as soon as they look
    std::uint64_t* failure;  // not 0: why a kernel has broken off
    std::uint64_t* sent;     // by rank: payload bytes that kernels have moved to it
    std::uint64_t* fetched;  // and from its memory
  };
  Addresses on_device() const;

  void abort();
  std::uint64_t failure() const;
  // Adds what kernels have moved since the last time. They must have ended, or it is taken later.
  void take_traffic(Traffic& to);

 private:
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(block_->data().data()); }
  Addresses at(std::uint64_t* begin) const;

  Device& device_;
  DeviceStream stream_;
  std::size_t size_;
  std::unique_ptr<PinnedBlock> block_;
  std::vector<std::uint64_t> taken_;  // of what was moved to ranks, then from them
};

class DeviceExchange {
 public:
  // Collective, by calls on the host, for ranks of one host. Each rank's memory has `bytes` bytes, zeroed.
  // Null on all ranks where one could not do its part: `why_not` says which, and why.
  static std::unique_ptr<DeviceExchange> make(Device& device, DeviceStream stream, Communicator& communicator,
                                              std::size_t bytes, std::string& why_not);
  // Collective, by a call on the host, before the end: no rank frees its memory while another has it open. No
  // kernel of this rank uses any of it any more.
  void close(Communicator& communicator);
  // Without close(), as after a failure: no kernel of this rank uses it any more, nor a peer's this rank's
  // memory.
  ~DeviceExchange();
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Of each rank, this one too, as this rank's device reaches it.
  const std::vector<std::byte*>& memories() const { return memories_; }

 private:
  DeviceExchange(Device& device, DeviceStream stream)
      : device_(device), stream_(device.companion_of(stream)) {}

  // What a rank tells the others of its memory.
  struct Card {
    ProcessIdentity process;
    DeviceReference memory;
  };
  DeviceReference allocate(DeviceStream stream, std::size_t bytes);
  void open(const std::vector<Card>& cards);

  Device& device_;
  std::byte* own_ = nullptr;
  DeviceStream stream_;
  std::vector<std::unique_ptr<const OpenAllocation>> open_;  // until close()
  std::vector<std::byte*> memories_;
};

}  // namespace rondo
