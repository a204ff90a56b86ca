#include "src/group.h"

#include <span>
#include <vector>

#include "src/calls.h"
#include "src/device_call.h"
#include "src/engine.h"

namespace rondo {
namespace {

struct Batch {
  std::shared_ptr<Communicator> communicator;
  CallStream stream;
  Call call;
};

struct Group {
  int depth = 0;
  std::vector<Batch> batches;
};

Group& group() {
  thread_local Group open;
  return open;
}

void add(Batch added) {
  for (Batch& batch : group().batches) {
    if (batch.communicator == added.communicator && batch.stream == added.stream &&
        joins(batch.call, added.call))
      return join(batch.call, std::move(added.call));
  }
  group().batches.push_back(std::move(added));
}

// Whether the call goes to a device's stream: where its caller put it, or because of its memory. In a group
// that is asked of the whole batch, since ranks that differ in their memory must batch alike.
Device* device_for(const Batch& batch) {
  Device* const found = process_device();
  if (found == nullptr || batch.stream.device != nullptr) return found;
  if (!touches(*found, batch.call)) return nullptr;
  if (batch.stream.host)
    fail(ErrorKind::invalid_argument,
         "a buffer lies in device memory, and the stream is one of rondoStreamCreate: expected a stream of "
         "the device, or null");
  return found;
}

bool touches(const PlainCall& plain) {
  const Device* const found = process_device();
  return found != nullptr && (found->allocation_of(plain.send) || found->allocation_of(plain.receive));
}

// A batch that was started: waited for here, or on a device's stream.
struct Started {
  std::shared_ptr<PendingCall> blocking;
  std::shared_ptr<DeviceCall> on_device;
};

Started start(Batch batch) {
  if (Device* const found = device_for(batch))
    return {nullptr, begin_on(*found, batch.stream.device, batch.stream.context, *batch.communicator,
                              std::move(batch.call))};
  if (!batch.stream.host) return {batch.communicator->start(std::move(batch.call)), nullptr};
  batch.stream.host->submit(*batch.communicator, std::move(batch.call));
  return {};
}

// Calls of several ranks of this process may stand on one stream: before it waits for the others of one it is
// to have come to all, and before it waits for the end of one to have done its part of all.
template <typename Attempt>
void put_rest(std::span<const std::shared_ptr<DeviceCall>> calls, Attempt attempt) {
  for (const auto& call : calls) attempt([&] { call->put_move(); });
  for (const auto& call : calls) attempt([&] { call->put_departure(); });
}

}  // namespace

void group_start() { ++group().depth; }

void group_end() {
  if (group().depth == 0) fail(ErrorKind::invalid_usage, "the end of a group without its start");
  if (--group().depth > 0) return;
  std::vector<std::shared_ptr<PendingCall>> blocking;
  std::vector<std::shared_ptr<DeviceCall>> on_device;
  std::optional<Error> refused;  // the others are still waited for: their memory is the caller's
  const auto attempt = [&](auto what) {
    try {
      what();
    } catch (const Error& error) {
      if (!refused) refused = error;
    }
  };
  for (Batch& batch : std::exchange(group().batches, {}))
    attempt([&] {
      Started started = start(std::move(batch));
      if (started.blocking) blocking.push_back(std::move(started.blocking));
      if (started.on_device) on_device.push_back(std::move(started.on_device));
    });
  put_rest(on_device, attempt);
  if (!blocking.empty()) attempt([&] { wait_for_all(blocking); });
  if (refused) throw Error(*refused);
}

void submit(const std::shared_ptr<Communicator>& communicator, Call call, const CallStream& stream) {
  Batch batch{communicator, stream, std::move(call)};
  // The thread may stand elsewhere when its group ends: one that calls for several devices goes from one to
  // the next.
  if (const Device* const found = process_device(); found != nullptr && !stream.host)
    batch.stream.context = found->context_of(stream.device);
  if (group().depth > 0) return add(std::move(batch));
  const Started started = start(std::move(batch));
  if (started.on_device) put_rest({&started.on_device, 1}, [](auto put) { put(); });
  if (started.blocking) wait_for(*started.blocking);
}

void submit(const std::shared_ptr<Communicator>& communicator, const PlainCall& plain,
            const CallStream& stream) {
  if (group().depth > 0 || stream.given() || touches(plain))
    submit(communicator, call_of({communicator->rank(), communicator->size()}, plain), stream);
  else
    communicator->run(plain);
}

}  // namespace rondo
