// Memory of a device that belongs to other processes of this host: how its owner tells of it, and what of it
// is open here.
//
// An allocation is known by its owner, a rank, and its number, which is never used twice: memory at a used
// address, or behind a used handle, is never taken for what was there before. The owner also tells how many
// of the allocations it has told of are gone, so that freed memory is not held here for ever.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "src/device.h"

namespace rondo {

// Where a buffer lies, as a rank tells its peers.
struct DeviceReference {
  std::uint64_t number;   // of the allocation; 0: the buffer is in none that can be told of
  std::uint64_t address;  // of the buffer, for ranks in the same process
  std::uint64_t offset;   // of the buffer in the allocation
  std::uint64_t freed;    // allocations told of that the rank knows to be gone
  DeviceMemoryHandle handle;
};

// Where a call's buffers that peers touch lie in a device's memory.
struct DeviceBuffer {
  DeviceReference memory;
  std::uint64_t layout;  // hash of how its pieces lie, seen from the first byte
};
struct CallDeviceBuffers {
  DeviceBuffer input, output;
};

// Whether a rank has mapped what the others have told of. Not now: another call may.
enum class Mapped : std::uint64_t { never, yes, not_now };

// The owner's side, of one communicator. Safe from any thread.
class ToldAllocations {
 public:
  explicit ToldAllocations(Device& device) : device_(device) {}

  // The whole buffer must lie in one allocation, of the stream's device. Also looks, in turn, whether some of
  // those told of before are still there: their owner frees them without a word, and another may stand at
  // their address.
  DeviceReference tell(DeviceStream stream, const void* buffer, std::size_t bytes);

 private:
  struct Told {
    DeviceAllocation allocation;
    DeviceMemoryHandle handle;
  };
  using All = std::map<std::uint64_t, Told>;  // by number

  const Told* find_or_add(DeviceStream stream, const DeviceAllocation& allocation);
  void drop_some_that_are_gone();
  bool is_gone(const DeviceAllocation& allocation) const;

  Device& device_;
  std::mutex mutex_;
  All told_;
  std::uint64_t looked_at_ = 0;  // the last number that was looked at
  std::uint64_t freed_ = 0;
};

// An allocation of another process that is open here, for as long as it is held.
class OpenAllocation {
 public:
  OpenAllocation(Device& device, DeviceStream stream, std::byte* base)
      : device_(device), stream_(stream), base_(base) {}
  ~OpenAllocation();
  OpenAllocation(const OpenAllocation&) = delete;
  OpenAllocation& operator=(const OpenAllocation&) = delete;
  std::byte* base() const { return base_; }

 private:
  Device& device_;
  DeviceStream stream_;
  std::byte* base_;
};

// The other side, of one communicator, for work on streams of one device. Used by one thread at a time. A
// call holds what it uses until its stream is through with it; nothing is closed before, nor while any call
// is at work, since the driver may wait for its stream to close something: let_go_between_calls().
class PeerAllocations {
 public:
  // `stream`: one of that device, for as long as anything is open.
  PeerAllocations(Device& device, DeviceStream stream) : device_(device), stream_(stream) {}

  // What is open already, without asking the driver; null: it is to be opened. `owner`: a rank of another
  // process of this host. It is kept until the owner has freed something, or too many of its are open.
  std::shared_ptr<const OpenAllocation> find(int owner, const DeviceReference& reference);
  // Throws device where it cannot be opened. Null: not now; what is open is let go, so that a later call may
  // open it.
  std::shared_ptr<const OpenAllocation> open(int owner, const DeviceReference& reference);
  // Memory of another rank of this process is not opened: whether jobs on the stream may name it, as found
  // before; and as the device says, which throws if they may not.
  bool reaches(const DeviceReference& reference) const { return reached_.count(reference.number) > 0; }
  void need_reach(const DeviceReference& reference);

  std::size_t open_count() const;

 private:
  // One for each rank, though several may be of one process: each tells for itself what is freed.
  struct Peer {
    std::uint64_t freed = 0;                                              // as far as we know
    std::map<std::uint64_t, std::shared_ptr<const OpenAllocation>> open;  // by number
  };

  Device& device_;
  DeviceStream stream_;
  std::map<int, Peer> peers_;
  std::set<std::uint64_t> reached_;  // by number
  int refusals_ = 0;                 // in a row: "not now" so often is never
};

// Both sides, of one communicator.
struct DeviceMemories {
  explicit DeviceMemories(Device& device) : told(device) {}

  ToldAllocations told;
  // By each device's companion stream. An errand's, while one is at work for a call; else the engine's.
  std::map<DeviceStream, PeerAllocations> opened;
};

}  // namespace rondo
