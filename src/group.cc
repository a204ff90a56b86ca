#include "src/group.h"

#include <vector>

#include "src/calls.h"
#include "src/engine.h"

namespace rondo {
namespace {

struct Batch {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Stream> stream;
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

}  // namespace

void group_start() { ++group().depth; }

void group_end() {
  if (group().depth == 0) fail(ErrorKind::invalid_usage, "the end of a group without its start");
  if (--group().depth > 0) return;
  std::vector<std::shared_ptr<PendingCall>> blocking;
  std::optional<Error> refused;  // the others are still waited for: their memory is the caller's
  for (Batch& batch : std::exchange(group().batches, {})) {
    try {
      if (batch.stream)
        batch.stream->submit(*batch.communicator, std::move(batch.call));
      else
        blocking.push_back(batch.communicator->start(std::move(batch.call)));
    } catch (const Error& error) {
      if (!refused) refused = error;
    }
  }
  if (!blocking.empty()) wait_for_all(blocking);
  if (refused) throw Error(*refused);
}

void submit(const std::shared_ptr<Communicator>& communicator, Call call,
            const std::shared_ptr<Stream>& stream) {
  if (group().depth > 0)
    add({communicator, stream, std::move(call)});
  else if (stream)
    stream->submit(*communicator, std::move(call));
  else
    communicator->run(std::move(call));
}

void submit(const std::shared_ptr<Communicator>& communicator, const PlainCall& plain,
            const std::shared_ptr<Stream>& stream) {
  if (group().depth > 0 || stream)
    submit(communicator, call_of({communicator->rank(), communicator->size()}, plain), stream);
  else
    communicator->run(plain);
}

}  // namespace rondo
