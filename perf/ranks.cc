#include "perf/ranks.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/error.h"
#include "src/settings.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int default_ranks = 2;
constexpr std::chrono::seconds patience{5};
constexpr int exit_failed = 1, exit_after_others = 3;

// A failure that another rank has caused, and which that rank tells of.
bool is_consequence(const std::exception& error) {
  const auto* from_rondo = dynamic_cast<const Exception*>(&error);
  return from_rondo != nullptr &&
         (from_rondo->result() == rondoRemoteError || from_rondo->result() == rondoAborted);
}

void keep_on_cpu(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int skip = rank % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

template <typename Make>
int run_rank(const char* program, const WorldBody& body, Make make) {
  int rank = -1;
  try {
    Communicator communicator = make();
    rank = communicator.rank();
    body(communicator);
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    if (is_consequence(error)) return exit_after_others;
    const std::string who = rank < 0 ? "" : fmt::format("rank {}: ", rank);
    fmt::print(stderr, "{}: {}{}\n", program, who, error.what());
    return exit_failed;
  }
}

[[noreturn]] void be_rank(const char* program, int rank, int size, pid_t parent, const UniqueId& id,
                          const WorldOptions& options, const WorldBody& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(exit_failed);
  if (options.bind) keep_on_cpu(rank);
  const int status =
      run_rank(program, body, [&] { return Communicator::from_id(id, size, rank, options.config); });
  std::fflush(nullptr);
  ::_exit(status);
}

// Waits for all. When one dies, the others' calls of Rondo fail by themselves; those of a library that it is
// compared with may not, and ranks that are left over in the end die with this process.
int wait_for_all(const char* program) {
  int result = 0, status = 0;
  Clock::time_point end{};
  while (true) {
    const pid_t pid = ::waitpid(-1, &status, result == 0 ? 0 : WNOHANG);
    if (pid < 0) break;
    if (pid == 0) {
      if (Clock::now() > end) {
        fmt::print(stderr, "{}: some ranks had not ended {} s after the first that failed\n", program,
                   patience.count());
        break;
      }
      std::this_thread::sleep_for(10ms);
      continue;
    }
    if (result == 0) end = Clock::now() + patience;
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "{}: a rank was ended by signal {} ({})\n", program, WTERMSIG(status),
                 ::strsignal(WTERMSIG(status)));
      result = 128 + WTERMSIG(status);
    } else if (result == 0 || result == exit_after_others) {
      result = WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : result;
    }
  }
  return result;
}

}  // namespace

int run_world(const char* program, const WorldOptions& options, const WorldBody& body) {
  if (LaunchEnvironment::is_there()) {
    if (options.ranks)
      fail(ErrorKind::invalid_argument, "--ranks {}: a launcher has started the ranks: expected no --ranks",
           *options.ranks);
    return run_rank(program, body, [&] { return Communicator::from_environment(options.config); });
  }
  const int size = options.ranks.value_or(default_ranks);
  const UniqueId id;
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // what waits in our buffers would be written once by every child
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) fail(ErrorKind::system, "cannot start rank {}: {}", rank, std::strerror(errno));
    if (pid == 0) be_rank(program, rank, size, parent, id, options, body);
  }
  return wait_for_all(program);
}

}  // namespace rondo
