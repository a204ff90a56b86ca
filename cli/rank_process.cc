#include "cli/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/exit_status.h"
#include "src/error.h"

namespace rondo {
namespace {

void read_nothing() {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
}

void bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

// The child's side. Returns only if the program cannot be executed.
void become(const RankStart& start, pid_t launcher) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before we asked to die with it.
  if (::getppid() != launcher) ::_exit(exit_failure);
  if (!start.gets_input) read_nothing();
  ::dup2(start.output, STDOUT_FILENO);
  ::dup2(start.error, STDERR_FILENO);
  if (start.kept_descriptor >= 0) ::fcntl(start.kept_descriptor, F_SETFD, 0);
  bind_to(start.cpus);
  for (const auto& [name, value] : start.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : start.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

// Waits for the child to run its program: then the pipe closes. Else errno comes through it.
int execution_error(const Fd& pipe) {
  int error = 0;
  ssize_t got = 0;
  do got = ::read(pipe.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

}  // namespace

RankProcess::RankProcess(const RankStart& start) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::system, "pipe: {}", std::strerror(errno));
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t launcher = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail(ErrorKind::system, "cannot start another process: {}", std::strerror(errno));
  if (pid_ == 0) {
    become(start, launcher);
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(writer.get(), &error, sizeof error);
    ::_exit(exit_cannot_execute);
  }
  // Both sides do this, so that it holds for each of them from here on.
  ::setpgid(pid_, pid_);
  writer.reset();
  if (const int error = execution_error(reader); error != 0) {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    throw CannotExecute{start.command.front(), error};
  }
}

RankProcess::~RankProcess() {
  if (pid_ < 0) return;
  if (running()) send(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

const std::optional<RankProcess::End>& RankProcess::look() {
  if (end_) return end_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_)
    end_ = End{info.si_code != CLD_EXITED, info.si_status};
  return end_;
}

void RankProcess::send(int signal) const { ::kill(-pid_, signal); }

int RankProcess::End::exit_status() const { return by_signal ? exit_by_signal(number) : number; }

std::string RankProcess::End::text() const {
  return by_signal ? fmt::format("was ended by signal {} ({})", number, ::strsignal(number))
                   : fmt::format("exited with status {}", number);
}

}  // namespace rondo
