// Ranks whose buffers lie in a device's memory: a real device where one is there, else the stand-in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "include/rondo/rondo.h"
#include "src/device.h"
#include "tests/ranks.h"
#include "tests/stand_in_device.h"
#include "tests/typed_buffer.h"

namespace rondo::test {

enum class DeviceKind { stand_in, without_jobs, cuda };

inline std::string name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::stand_in:
      return "StandIn";
    case DeviceKind::without_jobs:
      return "WithoutJobs";
    case DeviceKind::cuda:
      return "Cuda";
  }
  return "?";
}

inline std::unique_ptr<Device> make_device(DeviceKind kind) {
  if (kind == DeviceKind::cuda) return make_cuda_device();
  auto device = std::make_unique<StandInDevice>();
  if (kind == DeviceKind::without_jobs) device->have_no_jobs();
  return device;
}

// Why there is no such device here; empty: there is one. Asked in a child: a process that has used CUDA
// cannot fork ranks that do.
inline std::string why_no_device(DeviceKind kind) {
  if (kind != DeviceKind::cuda) return "";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const auto device = make_cuda_device();
      if (!device) ::_exit(1);
      device->free(device->allocate(1));
      ::_exit(0);
    } catch (const Error&) {
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == 0) return "";
  return WIFEXITED(status) && WEXITSTATUS(status) == 1
             ? "no CUDA driver is here, or Rondo was built without CUDA"
             : "the CUDA driver that is here gives no memory: no GPU";
}

inline void expect_well(rondoResult_t result) {
  EXPECT_EQ(result, rondoSuccess) << rondoGetLastError(nullptr);
}

// One rank, in a process of its own.
struct DeviceRank {
  Device& device;
  rondoComm_t comm;
  int rank, size;
  DeviceStream stream;

  rondoStream_t on() const { return static_cast<rondoStream_t>(stream); }
  rondoResult_t async_error() const {
    rondoResult_t error = rondoInternalError;
    expect_well(rondoCommGetAsyncError(comm, &error));
    return error;
  }
};

// Each rank is a process with a device, a communicator whose ledger is strict, and a stream.
inline void run_device_ranks(DeviceKind kind, int size, const std::function<void(DeviceRank&)>& body,
                             std::int64_t timeout_ms = 60'000) {
  rondoUniqueId id;
  expect_well(rondoGetUniqueId(&id));
  run_processes(size, [&](int rank) {
    const auto device = make_device(kind);
    use_device(device.get());
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.strict = 1;
    config.timeout_ms = timeout_ms;
    DeviceRank one{*device, nullptr, rank, size, device->make_stream()};
    ASSERT_EQ(rondoCommInitRankConfig(&one.comm, size, id, rank, &config), rondoSuccess)
        << rondoGetLastError(nullptr);
    body(one);
    if (one.comm != nullptr) expect_well(rondoCommDestroy(one.comm));
    use_device(nullptr);
  });
}

// Elements in device memory with sentinels around them, filled and looked at through the host. What is done
// to it stands on the stream.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, DeviceStream stream, DataType type, std::size_t count,
               std::size_t misalign = 0)
      : device_(device), stream_(stream), host_(type, count, misalign) {
    memory_ = device.allocate(host_.whole().size());
    device.pin(stream, host_.whole());
    up();
  }
  DeviceBuffer(DeviceRank& rank, DataType type, std::size_t count, std::size_t misalign = 0)
      : DeviceBuffer(rank.device, rank.stream, type, count, misalign) {}
  ~DeviceBuffer() {
    try {
      device_.synchronise(stream_);
      device_.unpin(stream_, host_.whole().data());
      device_.free(memory_);
    } catch (const Error&) {
      // The device of a test that has broken it.
    }
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() { return memory_ + host_.start(); }
  std::byte* at(std::size_t index) { return data() + (host_.at(index) - host_.data()); }

  template <typename Value>
  void fill(Value value) {
    device_.synchronise(stream_);
    host_.fill(value);
    up();
  }
  // Wait for the stream.
  template <typename Value>
  void expect(Value value) {
    down();
    host_.expect(value);
    host_.expect_sentinels();
  }
  void expect_bytes(TypedBuffer& expected) {
    down();
    EXPECT_EQ(std::memcmp(host_.data(), expected.data(), expected.bytes()), 0);
    host_.expect_sentinels();
  }

 private:
  void down() {
    device_.copy(stream_, host_.whole().data(), memory_, host_.whole().size());
    device_.synchronise(stream_);
  }
  void up() { device_.copy(stream_, memory_, host_.whole().data(), host_.whole().size()); }

  Device& device_;
  DeviceStream stream_;
  TypedBuffer host_;
  std::byte* memory_;
};

}  // namespace rondo::test
