// A call on a device's stream, carried out on the host: the stream copies its inputs to host memory, waits,
// and copies its outputs back, while the engine runs the call as any other as soon as the inputs have come.
// Nobody waits but the stream.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/call.h"
#include "src/device.h"
#include "src/device_health.h"
#include "src/error.h"
#include "src/pinned_blocks.h"
#include "src/traffic.h"

namespace rondo {

class Communicator;
struct PendingCall;

// Safe from any thread.
class DeviceCall : public std::enable_shared_from_this<DeviceCall> {
 public:
  // Points `call` to host memory instead of the device's. Throws invalid_usage where the stream is recorded
  // and not run.
  // `context`: that of Device::context_of(stream) where the call was made.
  DeviceCall(Device& device, DeviceStream stream, DeviceContext context, Communicator& communicator,
             Call& call);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  const CopiedBytes& copied() const { return copied_; }

  // The caller's part, in this order. What goes wrong is thrown, and ends the communicator: the call may be
  // under way, or done, and its outputs will not come.
  void put_copies_down();
  void put_copies_up();

  // The engine's: whether the inputs have come.
  bool has_come() const;
  // Throws when the device has failed: then they never come. Asks nobody.
  void check() const;
  // The call is done: the stream may go on.
  void end(bool well);

 private:
  struct Copy {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
  };

  void plan(Call& call);
  static void add(std::vector<Copy>& copies, const Copy& copy);
  template <typename Put>
  void put(Put put);
  void give_up(const Error& error) const;

  Device& device_;
  DeviceStream stream_;
  DeviceContext context_;
  std::shared_ptr<const DeviceHealth> health_;
  std::weak_ptr<Communicator> communicator_;
  std::function<void()> wake_;  // this rank, wherever it waits for the call
  std::optional<CallAtWork> at_work_;
  std::unique_ptr<PinnedBlock> block_;
  std::uint32_t value_;  // of the block's word, when the call is done
  std::vector<Copy> down_, up_;
  CopiedBytes copied_;

  std::atomic<bool> come_{false};
  enum class StreamState { not_begun, at_work, done };
  std::atomic<StreamState> stream_state_{StreamState::not_begun};
  std::atomic<bool> well_{false};
};

// Whether any of the call's buffers lies in the device's memory.
bool touches(const Device& device, const Call& call);

// Queues the call, and the copies of its inputs on the stream. put_copies_up() is to follow: where several
// calls stand on one stream, when all of them have begun, since each may wait for others' inputs.
std::shared_ptr<DeviceCall> begin_on(Device& device, DeviceStream stream, DeviceContext context,
                                     Communicator& communicator, Call call);

}  // namespace rondo
