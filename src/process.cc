#include "src/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "src/error.h"
#include "src/log.h"

namespace rondo {
namespace {

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Empty where there is no such file. Out of descriptors is an error: we would take a process for another.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file && (errno == EMFILE || errno == ENFILE))
    fail(ErrorKind::system, "opening {}: {}", path, std::strerror(errno));
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::uint64_t boot_hash() { return hash_of(text_of("/proc/sys/kernel/random/boot_id")); }

// A field of /proc/PID/stat, numbered as in proc(5), after the name, which may hold blanks and brackets. 0
// where there is no such process.
std::uint64_t stat_field(std::int64_t pid, int wanted) {
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  for (int number = 3; number < wanted; ++number) fields >> field;
  std::uint64_t value = 0;
  fields >> value;
  return value;
}

std::uint64_t namespace_inode(const char* kind) {
  struct stat status {};
  ::stat((std::string("/proc/self/ns/") + kind).c_str(), &status);
  return status.st_ino;
}

std::atomic<std::uint64_t> generation{0};

}  // namespace

std::uint64_t start_time_of(std::int64_t pid) { return stat_field(pid, 22); }

std::int64_t parent_of(std::int64_t pid) { return static_cast<std::int64_t>(stat_field(pid, 4)); }

std::string name_of_process(std::int64_t pid) {
  std::string name = text_of("/proc/" + std::to_string(pid) + "/comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

ProcessIdentity this_process() {
  return {boot_hash(), namespace_inode("net"), namespace_inode("pid"), ::getpid(), start_time_of(::getpid())};
}

std::shared_ptr<PeerProcess> PeerProcess::watch(const ProcessIdentity& identity) {
  const ProcessIdentity self = this_process();
  if (identity == self) return nullptr;
  if (identity.namespace_ != self.namespace_) {
    logger().info("process {} is in another PID namespace: its death shows only by a deadline", identity.pid);
    return nullptr;
  }
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, std::uint64_t>, std::weak_ptr<PeerProcess>> watched;
  const std::lock_guard lock(mutex);
  std::erase_if(watched, [](const auto& entry) { return entry.second.expired(); });
  auto& known = watched[{identity.pid, identity.start_time}];
  if (auto peer = known.lock()) return peer;
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(identity.pid), 0)));
  if (!pidfd && (errno == ENOSYS || errno == EPERM)) {
    logger().info("no pidfd of process {}: its death shows only by a deadline", identity.pid);
    return nullptr;
  }
  if (!pidfd && errno != ESRCH)
    fail(ErrorKind::system, "pidfd_open of process {}: {}", identity.pid, std::strerror(errno));
  // Between its message and our look the process may have ended, and its number gone to another.
  if (start_time_of(identity.pid) != identity.start_time) pidfd.reset();
  auto peer = std::make_shared<PeerProcess>(std::move(pidfd));
  known = peer;
  return peer;
}

bool PeerProcess::alive() const {
  if (!pidfd_) return false;
  pollfd entry{pidfd_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) <= 0;
}

std::uint64_t fork_generation() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  return generation.load(std::memory_order_relaxed);
}

}  // namespace rondo
