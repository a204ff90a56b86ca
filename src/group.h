// Groups of calls, one open group a thread. Calls of one kind, communicator, type and operator become one
// batch.
#pragma once

#include <memory>

#include "src/communicator.h"
#include "src/stream.h"

namespace rondo {

void group_start();
// Starts what the group holds; without a stream, returns when all of it is done. Throws invalid_usage without
// a group_start before.
void group_end();

// Makes one call: into the open group, onto the stream, or, with neither, to its end.
void submit(const std::shared_ptr<Communicator>& communicator, Call call,
            const std::shared_ptr<Stream>& stream);
void submit(const std::shared_ptr<Communicator>& communicator, const PlainCall& plain,
            const std::shared_ptr<Stream>& stream);

}  // namespace rondo
