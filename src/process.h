// What a rank needs to know of a process: which one it is, whether it still lives, whether we are a forked
// child.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "src/fd.h"

namespace rondo {

// Tells one process from all others of a host, also after its number was used again.
struct ProcessIdentity {
  std::uint64_t boot;        // hash of the kernel's boot id: which machine
  std::uint64_t network;     // inode of the process's network namespace: which host on it
  std::uint64_t namespace_;  // inode of the process's PID namespace
  std::int64_t pid;
  std::uint64_t start_time;  // clock ticks since boot

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

inline bool same_host(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.boot == b.boot && a.network == b.network;
}

ProcessIdentity this_process();

// Of a process of this PID namespace, as /proc tells; 0 and empty where there is none. A name has at most 15
// bytes.
std::uint64_t start_time_of(std::int64_t pid);
std::int64_t parent_of(std::int64_t pid);
std::string name_of_process(std::int64_t pid);

// Watches another process by a pidfd, which cannot be fooled by a reused number. All communicators of this
// process share one watch for each peer process.
class PeerProcess {
 public:
  // Null for this process itself, and for one that cannot be watched: in another PID namespace, or in a
  // sandbox without pidfds.
  static std::shared_ptr<PeerProcess> watch(const ProcessIdentity& identity);

  explicit PeerProcess(Fd pidfd) : pidfd_(std::move(pidfd)) {}
  bool alive() const;

 private:
  Fd pidfd_;  // empty: the process was gone before it could be watched
};

// Changes in a forked child: handles made by the parent are not the child's to use.
std::uint64_t fork_generation();

}  // namespace rondo
