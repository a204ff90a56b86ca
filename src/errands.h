// What a device's driver may keep waiting, as it may keep whoever opens or pins memory for as long as the
// program itself waits there for a stream: a stream that waits for a call of ours, perhaps. Who drives calls
// must not wait for that, so a thread of its own does such things, one after another.
#pragma once

#include <functional>

namespace rondo {

// From any thread. `body` throws nothing.
void run_errand(std::function<void()> body);
// Returns when all that were run before are done, and gone (for tests).
void finish_errands();

}  // namespace rondo
