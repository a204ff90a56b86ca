// A host stream: calls that run in order while their caller goes on.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/communicator.h"

namespace rondo {

// Safe from any thread.
class Stream {
 public:
  Stream();

  // Returns at once; the call starts when all calls before it on this stream are done.
  void submit(Communicator& communicator, Call call);
  // Waits for all calls. Throws the first error among those not told yet.
  void synchronize();
  // False: not all done yet. Throws as synchronize() does.
  bool query();

 private:
  std::vector<std::shared_ptr<PendingCall>> take_calls();

  std::mutex mutex_;
  std::vector<std::shared_ptr<PendingCall>> calls_;  // not seen to be done well
  std::weak_ptr<PendingCall> last_;                  // also while somebody waits for what was in calls_
};

}  // namespace rondo
