// Memory for one measurement, as calls are given it and as the host fills it and reads it: for a device's
// those are two.
#pragma once

#include <optional>
#include <utility>

#include "cli/buffer.h"
#include "include/rondo/rondo.hpp"
#include "src/device.h"

namespace rondo {

// Why buffers cannot lie in a device's memory here; empty: they can. Asked in a child, since a process that
// has used CUDA cannot fork ranks that do.
std::string why_no_device_memory();

// Collective, for buffers in a device's memory: each rank takes the device of its place on its host, modulo
// their number. Returns two ranks that have the same one, if there are such.
std::optional<std::pair<int, int>> take_devices(Communicator& communicator);

// A stream of this process's device.
class BenchStream {
 public:
  BenchStream();
  ~BenchStream();
  BenchStream(const BenchStream&) = delete;
  BenchStream& operator=(const BenchStream&) = delete;

  DeviceStream get() const { return stream_; }
  void synchronize() const;

 private:
  DeviceStream stream_;
};

class BenchMemory {
 public:
  // `stream`: for a device's memory, what it is copied on, from and to memory of that kind; else null.
  BenchMemory(std::size_t bytes, BufferKind kind, const BenchStream* stream);
  ~BenchMemory();
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  std::byte* data() const { return stream_ == nullptr ? host_.data() : device_; }
  std::byte* on_host() const { return host_.data(); }
  void clear_on_host() { host_.clear(); }
  // What stands on the host goes to where calls find it, and back.
  void up() const { copy(device_, host_.data()); }
  void down() const { copy(host_.data(), device_); }

 private:
  void copy(std::byte* to, const std::byte* from) const;

  std::size_t bytes_;
  Buffer host_;
  const BenchStream* stream_;
  std::byte* device_ = nullptr;
};

}  // namespace rondo
