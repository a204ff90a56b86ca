// A device that computes, such as a GPU, as far as Rondo uses one: memory, streams, and memory of other
// processes. Behind it stand CUDA (transports/cuda_device.cc) and, in tests, memory and threads of the host
// (tests/stand_in_device.h). Everything that fails throws device, naming what the device said. Safe from any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace rondo {

namespace device {
struct Job;
}

// A stream by the device's own name: a cudaStream_t. Null: the device's default stream.
using DeviceStream = void*;

// Where default streams are, by the device's own name: a CUcontext.
using DeviceContext = void*;

// The allocation that a pointer into a device's memory belongs to.
struct DeviceAllocation {
  std::byte* base;
  std::size_t bytes;
  std::uint64_t number;  // among this process's allocations, never used twice

  bool contains(const std::byte* data) const { return data >= base && data < base + bytes; }
};

using DeviceIdentity = std::array<std::byte, 16>;

// Names an allocation to other processes of this host.
using DeviceMemoryHandle = std::array<std::byte, 64>;

class Device {
 public:
  virtual ~Device() = default;

  // ---- which one, where there are several, such as GPUs ----
  virtual int count() const = 0;
  // From now on the calling thread's current device is that one, from 0 to count() - 1.
  virtual void choose(int which) = 0;
  // The calling thread's current device by its own name, which is the same in all processes.
  virtual DeviceIdentity identity() const = 0;

  // ---- memory ----
  // Nothing: the pointer is to host memory, or to none.
  virtual std::optional<DeviceAllocation> allocation_of(const void* pointer) const = 0;
  // On the calling thread's current device.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;

  // ---- memory of other processes ----
  // Nothing: the allocation is of a kind that cannot be told to others.
  // `stream`: one of the allocation's device.
  virtual std::optional<DeviceMemoryHandle> handle_of(DeviceStream stream,
                                                      const DeviceAllocation& allocation) = 0;
  // The base of the allocation, at an address of this process, for work on streams of the same device as
  // `stream`; to be closed before its owner frees it. A process cannot open what is its own. Null: not now,
  // since freed memory that stood at its owner's address is still open here. Both may wait as check() may.
  virtual std::byte* open(DeviceStream stream, const DeviceMemoryHandle& handle) = 0;
  virtual void close(DeviceStream stream, std::byte* base) = 0;

  // ---- streams: none of these waits, but the last two, and what says so ----
  // Whose default stream it is, as the calling thread stands; null: it is no default stream.
  virtual DeviceContext context_of(DeviceStream stream) const = 0;
  // Until leave() the calling thread's default streams are those of the context.
  virtual void enter(DeviceContext context) = 0;
  virtual void leave() = 0;
  virtual DeviceStream make_stream() = 0;
  virtual void destroy_stream(DeviceStream stream) = 0;
  // Host memory that streams copy from and to, and wait at, must be pinned before.
  virtual void pin(DeviceStream stream, std::span<std::byte> memory) = 0;
  virtual void unpin(DeviceStream stream, std::byte* memory) = 0;
  // Where kernels find pinned memory.
  virtual std::byte* address_of_pinned(DeviceStream stream, const std::byte* memory) const = 0;
  // Between memories of any kind.
  virtual void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void clear(DeviceStream stream, std::byte* memory, std::size_t bytes) = 0;
  // Whether jobs on the stream may name this process's memory there. False where the device starts no
  // kernels. The first time in a context it loads them, and may wait for all streams there.
  virtual bool has_jobs(DeviceStream stream, const DeviceAllocation& allocation) const = 0;
  // The same of memory that may be another device's, to which access is turned on. May wait as check() may.
  virtual bool reaches(DeviceStream stream, const DeviceAllocation& allocation) = 0;
  // Does the job (kernels/device/job.h), which is read when the stream comes to it. `job`, and what it points
  // to, are addresses as kernels have them. `blocks`: at most device::most_job_blocks.
  virtual void do_job(DeviceStream stream, const device::Job* job, int blocks) = 0;
  // `body` runs on a thread of the device's when the stream comes to it. It may not wait for other streams,
  // nor use the device. It never runs once the device has failed.
  virtual void call_host(DeviceStream stream, std::function<void()> body) = 0;
  // The stream goes on once *word >= value. The word lies in pinned memory.
  virtual void wait_for_word(DeviceStream stream, const std::uint32_t* word, std::uint32_t value) = 0;
  // Whether what is put on the stream is recorded, to be run later, and again.
  virtual bool is_recorded(DeviceStream stream) const = 0;
  // A stream of Rondo's own, in the same context, with nothing on it: its user may destroy `stream` at any
  // time.
  virtual DeviceStream companion_of(DeviceStream stream) = 0;
  // Throws if the device has failed. From any thread, also while others record. May wait as long as others
  // wait in the device's driver: src/device_health.h.
  virtual void check(DeviceStream companion) const = 0;
  // Waits until the stream has done all that was put on it.
  virtual void synchronise(DeviceStream stream) = 0;
};

// This process's device; null: there is none. Looked for once, at the first call, which starts nothing on it.
Device* process_device();
// From now on `other` is this process's device (for tests); null: none. It must outlive all calls and all
// communicators that have made one on it, and be so replaced before its end.
void use_device(Device* other);

// CUDA; null where Rondo was built without it, or no driver is there.
std::unique_ptr<Device> make_cuda_device();

}  // namespace rondo
