// Whether a device has failed, as a thread of its own asks it. The driver may keep whoever asks waiting for
// as long as the program itself waits there for a stream, which may wait for a call of ours: who drives calls
// must not ask, and only looks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "src/device.h"
#include "src/error.h"

namespace rondo {

class DeviceHealth {
 public:
  DeviceHealth(Device& device, DeviceStream companion) : device_(device), companion_(companion) {}

  // Throws what the device has said, if it has failed. Waits for nobody. From any thread.
  void need_well() const;
  // By one thread at a time.
  void ask();

 private:
  Device& device_;
  DeviceStream companion_;
  std::optional<Error> error_;  // written before failed_
  std::atomic<bool> failed_{false};
};

// The device is asked every few milliseconds, for as long as somebody holds what this returns. `companion` is
// one of Device::companion_of. Safe from any thread.
std::shared_ptr<const DeviceHealth> watch(Device& device, DeviceStream companion);
// When it returns, the device is not asked any more (for tests: others live for ever).
void stop_watching(const Device& device);

}  // namespace rondo
