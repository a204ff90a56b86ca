// Keeps calls going. Whoever waits for a call drives it, and with it every other call that was started and
// not waited for yet, of any communicator of this process: so calls may be waited for in any order. A thread
// of its own exists only once streams or a GPU's memory are used, another once a communicator spans hosts.
#pragma once

#include <memory>
#include <span>

#include "src/communicator.h"

namespace rondo {

// Returns when the call is done; throws its error.
void wait_for(PendingCall& call);
// The same for several, which are all driven at once. Throws the first error, when all are done.
void wait_for_all(std::span<const std::shared_ptr<PendingCall>> calls);

// Returns when every call started on the communicator is done, well or not.
void wait_until_idle(const std::shared_ptr<Communicator>& communicator);

// Makes a call known to everybody who waits, until it is done. A call that is waited for at once needs it
// not.
void keep_going(const std::shared_ptr<PendingCall>& call);

// Between hosts somebody must take what comes, answer, and push on what UCX still holds, also while the
// program does something else: until stop_listening() a thread does so now and then.
void keep_listening(Communicator& communicator);
void stop_listening(Communicator& communicator);

// From now on a thread drives what keep_going() was told, also while nobody waits.
void start_progress_thread();

}  // namespace rondo
