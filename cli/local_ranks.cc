#include "cli/local_ranks.h"

#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/exit_status.h"
#include "src/deadline.h"
#include "src/error.h"
#include "src/fd.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

constexpr int most_local_ranks = 512;
constexpr auto grace = 5s;
// How often we look whether a rank has died without a word.
constexpr auto look_period = 50ms;

// What a rank that fails tells the parent, in one write, which a pipe keeps whole.
struct Report {
  int rank;
  ErrorKind kind;
  std::array<char, 2000> text;  // ends with a zero
};

// A failure that follows from another rank's.
bool is_consequence(ErrorKind kind) { return kind == ErrorKind::remote || kind == ErrorKind::aborted; }

void run_rank(Communicator& communicator, const RankBody& body) {
  omp_set_num_threads(1);
  body(communicator);
}

int run_in_launched_world(std::optional<int> ranks, const CommunicatorOptions& options,
                          const RankBody& body) {
  const LaunchEnvironment launch = LaunchEnvironment::read();
  if (ranks && *ranks != launch.size)
    fail(ErrorKind::invalid_argument,
         "--ranks {}: this process is rank {} of {} of a launcher: expected {}, or no --ranks", *ranks,
         launch.rank, launch.size, launch.size);
  run_rank(*Communicator::create(launch, options), body);
  return 0;
}

class LocalRanks {
 public:
  explicit LocalRanks(int size) : children_(static_cast<std::size_t>(size)) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::system, "pipe: {}", std::strerror(errno));
    reports_ = Fd(ends[0]);
    reporter_ = Fd(ends[1]);
  }
  ~LocalRanks() {
    send_all(SIGKILL);
    for (const Child& child : children_)
      if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  void start(const CommunicatorOptions& options, const RankBody& body) {
    const UniqueId id = UniqueId::make();
    const pid_t parent = ::getpid();
    // What waits in our buffers would be written once by every child.
    std::fflush(nullptr);
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      const pid_t pid = ::fork();
      if (pid < 0) fail(ErrorKind::system, "cannot start rank {}: {}", rank, std::strerror(errno));
      if (pid == 0) be_rank(static_cast<int>(rank), parent, id, options, body);
      children_[rank].pid = pid;
    }
    reporter_.reset();
  }

  int wait() {
    while (any_running()) {
      const bool news =
          hear_report(std::min<std::chrono::nanoseconds>(look_period, deadline_.left(look_period)));
      look_at_children();
      if ((news || first_dead_) && !ending_) end_others();
      if (ending_ && deadline_.passed()) send_all(SIGKILL);
    }
    while (hear_report(0ms)) {
    }
    return verdict();
  }

 private:
  struct Child {
    pid_t pid = -1;
    bool ended = false;
    int status = 0;  // waitpid's
  };

  [[noreturn]] void be_rank(int rank, pid_t parent, const UniqueId& id, const CommunicatorOptions& options,
                            const RankBody& body) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before we asked to die with it.
    if (::getppid() != parent) ::_exit(exit_failure);
    reports_.reset();
    int status = 0;
    try {
      run_rank(*Communicator::create(id.meeting_place(), rank, static_cast<int>(children_.size()), options),
               body);
    } catch (const Error& error) {
      status = tell(rank, error.kind(), error.what());
    } catch (const std::exception& error) {
      status = tell(rank, ErrorKind::internal, error.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }

  int tell(int rank, ErrorKind kind, const char* text) const {
    std::fflush(nullptr);  // once the parent knows, it may end us
    Report report{rank, kind, {}};
    std::strncpy(report.text.data(), text, report.text.size() - 1);
    [[maybe_unused]] const ssize_t told = ::write(reporter_.get(), &report, sizeof report);
    return exit_failure;
  }

  // True if a report came. At the end of file all ranks have ended, or are about to.
  bool hear_report(std::chrono::nanoseconds most) {
    pollfd entry{reports_.get(), POLLIN, 0};
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(most);
    if (::poll(&entry, 1, static_cast<int>(timeout.count())) <= 0) return false;
    Report report;
    if (::read(reports_.get(), &report, sizeof report) != sizeof report) {
      if (any_running()) wait_for_one();
      return false;
    }
    heard_.push_back(report);
    return true;
  }

  // All have closed the pipe: they are at their ends.
  void wait_for_one() {
    siginfo_t info{};
    ::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
  }

  void look_at_children() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      if (child.ended || ::waitpid(child.pid, &child.status, WNOHANG) != child.pid) continue;
      child.ended = true;
      child.pid = -1;
      // What we end ourselves is no failure of its own.
      if (child.status != 0 && !ending_ && (!first_dead_ || WIFSIGNALED(child.status))) first_dead_ = rank;
    }
  }

  void end_others() {
    ending_ = true;
    deadline_ = Deadline::after(grace);
    send_all(SIGTERM);
  }

  void send_all(int signal) const {
    for (const Child& child : children_)
      if (child.pid > 0) ::kill(child.pid, signal);
  }

  bool any_running() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return !child.ended; });
  }

  // Prints the one message that tells the cause.
  int verdict() const {
    if (first_dead_ && WIFSIGNALED(children_[*first_dead_].status)) {
      const int signal = WTERMSIG(children_[*first_dead_].status);
      report_error(Error(ErrorKind::remote, fmt::format("rank {} was ended by signal {} ({})", *first_dead_,
                                                        signal, ::strsignal(signal))));
      return exit_by_signal(signal);
    }
    const Report* cause = nullptr;
    for (const Report& report : heard_)
      if (cause == nullptr || (is_consequence(cause->kind) && !is_consequence(report.kind))) cause = &report;
    if (cause != nullptr) return report_error(error_of(*cause));
    if (!first_dead_) return 0;
    report_error(Error(ErrorKind::remote, fmt::format("rank {} exited with status {}", *first_dead_,
                                                      WEXITSTATUS(children_[*first_dead_].status))));
    return WEXITSTATUS(children_[*first_dead_].status);
  }

  // A bad argument is every rank's. The texts of a communicator begin with the rank already.
  static Error error_of(const Report& report) {
    const std::string text = report.text.data();
    if (report.kind == ErrorKind::invalid_argument || text.starts_with("rank ")) return {report.kind, text};
    return {report.kind, fmt::format("rank {}: {}", report.rank, text)};
  }

  std::vector<Child> children_;
  Fd reports_, reporter_;
  std::vector<Report> heard_;
  std::optional<std::size_t> first_dead_;
  bool ending_ = false;
  Deadline deadline_ = Deadline::never();
};

int run_forked(int ranks, const CommunicatorOptions& options, const RankBody& body) {
  if (ranks < 1 || ranks > most_local_ranks)
    fail(ErrorKind::invalid_argument, "--ranks {}: expected 1 to {}", ranks, most_local_ranks);
  LocalRanks all(ranks);
  all.start(options, body);
  return all.wait();
}

}  // namespace

int run_local_ranks(std::optional<int> ranks, const CommunicatorOptions& options, const RankBody& body) {
  return LaunchEnvironment::is_there() ? run_in_launched_world(ranks, options, body)
                                       : run_forked(ranks.value_or(default_local_ranks), options, body);
}

}  // namespace rondo
