#include "cli/probes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "src/bootstrap.h"
#include "src/error.h"
#include "src/socket.h"

namespace rondo {
namespace {

std::string problem(const char* call, int error = errno) {
  return fmt::format("{}: {}", call, std::strerror(error));
}

std::string probe_memfd() {
  const Fd memory(::memfd_create("rondo-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return problem("memfd_create");
  if (::ftruncate(memory.get(), 4096) != 0) return problem("ftruncate");
  if (::fallocate(memory.get(), 0, 0, 4096) != 0) return problem("fallocate");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return problem("sealing");
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return problem("mmap");
  ::munmap(page, 4096);
  return "";
}

// Also hands a descriptor over, which is what the socket is for.
std::string probe_socket() {
  try {
    const auto soon = Deadline::after(std::chrono::seconds(2));
    const Endpoint endpoint = UniqueId::make().meeting_place().endpoint;
    const Fd listener = listen_on(endpoint);
    const Fd near = connect_to(endpoint, soon);
    const Fd far = accept_from(listener);
    if (!far) return "a connection did not arrive";
    send_descriptor(near, listener, soon);
    receive_descriptor(far, soon);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string probe_pidfd() {
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return pidfd ? "" : problem("pidfd_open");
}

// With a value that is not there: works where it answers EAGAIN.
std::string probe_futex() {
  unsigned value = 0;
  const timespec soon{0, 1000000};
  const long result = ::syscall(SYS_futex, &value, FUTEX_WAIT, 1u, &soon, nullptr, 0);
  return result < 0 && errno == EAGAIN ? "" : problem("futex");
}

std::string probe_futex_waitv() {
  unsigned value = 0;
  futex_waitv entry{};
  entry.val = 1;
  entry.uaddr = reinterpret_cast<std::uintptr_t>(&value);
  entry.flags = FUTEX_32;
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const long result = ::syscall(SYS_futex_waitv, &entry, 1, 0, &until, CLOCK_MONOTONIC);
  return result < 0 && errno == EAGAIN ? "" : problem("futex_waitv");
}

// A child reads its parent, which no more descends from it than one rank from another. The answer is its
// exit status.
std::string probe_process_vm_readv() {
  static const int wanted = 0x5eed;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return problem("fork");
  if (child == 0) {
    int got = 0;
    const iovec local{&got, sizeof got}, remote{const_cast<int*>(&wanted), sizeof wanted};
    const ssize_t read = ::process_vm_readv(parent, &local, 1, &remote, 1, 0);
    ::_exit(read == sizeof got && got == wanted ? 0 : read < 0 ? errno : EIO);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return WIFEXITED(status) ? problem("process_vm_readv", WEXITSTATUS(status))
                           : "the probe was ended by a signal";
}

}  // namespace

std::vector<Probe> probe_shared_memory() {
  return {
      {"memfd, sealed", "memory that ranks share", true, probe_memfd()},
      {"abstract socket", "handing that memory over", true, probe_socket()},
      {"pidfd", "seeing a rank die", true, probe_pidfd()},
      {"futex", "sleeping until something happens", true, probe_futex()},
      {"futex_waitv", "sleeping on several communicators; else polls each ms", false, probe_futex_waitv()},
      {"process_vm_readv", "reading another rank's memory; not used", false, probe_process_vm_readv()}};
}

}  // namespace rondo
