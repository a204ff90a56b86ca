// Groups of calls, one open group a thread. Calls of one kind, communicator, type and operator become one
// batch.
#pragma once

#include <memory>

#include "src/communicator.h"
#include "src/device.h"
#include "src/stream.h"

namespace rondo {

// Where a call is put, besides its communicator's queue: on a stream of the host or of the device, or, with
// neither, on none. Then a call on device memory goes to the device's default stream.
struct CallStream {
  std::shared_ptr<Stream> host;
  DeviceStream device = nullptr;
  DeviceContext context = nullptr;  // of a default stream, as the caller's thread stood; submit() looks

  bool given() const { return host || device != nullptr; }
  friend bool operator==(const CallStream&, const CallStream&) = default;
};

void group_start();
// Starts what the group holds; without a stream, returns when all of it that is in host memory is done.
// Throws invalid_usage without a group_start before.
void group_end();

// Makes one call: into the open group, onto the stream, or, with neither, to its end.
void submit(const std::shared_ptr<Communicator>& communicator, Call call, const CallStream& stream);
void submit(const std::shared_ptr<Communicator>& communicator, const PlainCall& plain,
            const CallStream& stream);

}  // namespace rondo
