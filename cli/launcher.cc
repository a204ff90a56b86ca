#include "cli/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "cli/cpus.h"
#include "cli/exit_status.h"
#include "cli/rank_output.h"
#include "cli/rank_process.h"
#include "src/deadline.h"
#include "src/error.h"
#include "src/socket.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

// Between SIGTERM and SIGKILL.
constexpr auto grace = 5s;
// What a rank has started, and not waited for, may still write so long after all ranks have ended well.
constexpr auto drain_time = 1s;

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array passing_signals{SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

// Standard descriptors that are closed would be given to the next pipe, and be taken for a terminal.
void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::string random_secret() {
  std::array<unsigned char, 32> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

struct Pipe {
  Fd reader, writer;
};

// Only our side must never block: a program's stdout may not be changed under it.
Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::system, "pipe: {}", std::strerror(errno));
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

// The signals that we hear by a descriptor, so that they come in turn with everything else.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : ending_signals) sigaddset(&set, signal);
    for (const int signal : passing_signals) sigaddset(&set, signal);
    for (const int signal : {SIGCHLD, SIGTSTP}) sigaddset(&set, signal);
    ::signal(SIGPIPE, SIG_IGN);
    // Where it is ignored, children that end leave no status.
    ::signal(SIGCHLD, SIG_DFL);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    descriptor_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_) fail(ErrorKind::system, "signalfd: {}", std::strerror(errno));
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  const sigset_t& mask_before() const { return before_; }
  void restore() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  std::optional<int> next() const {
    signalfd_siginfo info{};
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  Fd descriptor_;
  sigset_t before_{};
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        stdout_(STDOUT_FILENO, options.tags),
        stderr_(STDERR_FILENO, options.tags),
        error_sink_(same_file(STDOUT_FILENO, STDERR_FILENO) ? stdout_ : stderr_) {}

  int run() {
    start_all();
    while (!done()) {
      wait();
      if (deadline_.passed()) give_up_waiting();
    }
    if (failed_)
      for (const RankProcess& rank : ranks_) rank.send(SIGKILL);  // what a rank left behind
    for (RankOutput& output : outputs_) output.finish();
    // From here on nothing is left to look after: a signal may end us while we write.
    signals_.restore();
    stdout_.flush();
    stderr_.flush();
    return failed_ ? ranks_[*failed_].end()->exit_status() : 0;
  }

 private:
  void start_all() {
    const Fd listener = listen_on({.unix_name = {}, .host = "127.0.0.1", .port = 0});
    const auto common = environment_of_all(bound_port(listener));
    const auto cpus = cpus_of_ranks();
    for (int rank = 0; rank < options_.ranks; ++rank) {
      Pipe output = make_pipe(), error = make_pipe();
      RankStart start{options_.command,
                      common,
                      {},
                      output.writer.get(),
                      error.writer.get(),
                      // A terminal belongs to the group in its foreground, which the ranks are not in.
                      rank == 0 && ::isatty(STDIN_FILENO) == 0,
                      -1,
                      signals_.mask_before()};
      for (const char* name : {"RANK", "LOCAL_RANK"})
        start.environment.emplace_back(name, std::to_string(rank));
      if (!cpus.empty()) start.cpus = cpus[static_cast<std::size_t>(rank)];
      if (rank == 0) {
        start.kept_descriptor = listener.get();
        start.environment.emplace_back("RONDO_LISTEN_FD", std::to_string(listener.get()));
      }
      ranks_.emplace_back(start);
      outputs_.emplace_back(rank, std::move(output.reader), stdout_);
      outputs_.emplace_back(rank, std::move(error.reader), error_sink_);
    }
  }

  // Empty where they are not to be bound.
  std::vector<std::vector<int>> cpus_of_ranks() {
    if (!options_.bind) return {};
    const auto groups = usable_cores();
    auto cpus = share_cores(groups, options_.ranks);
    if (cpus.empty())
      say(fmt::format("--bind: {} ranks outnumber the {} cores: not bound", options_.ranks,
                      core_count(groups)));
    return cpus;
  }

  // A rank of another run that starts this one has left its own in our environment: all are set anew.
  std::vector<std::pair<std::string, std::string>> environment_of_all(int rondo_port) const {
    const std::string size = std::to_string(options_.ranks);
    // Held while the other is chosen, so that the two differ.
    const int own_port = bound_port(listen_on({.unix_name = {}, .host = "127.0.0.1", .port = 0}));
    std::vector<std::pair<std::string, std::string>> all{{"WORLD_SIZE", size},
                                                         {"LOCAL_WORLD_SIZE", size},
                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                         {"MASTER_PORT", std::to_string(own_port)},
                                                         {"RONDO_MASTER_PORT", std::to_string(rondo_port)},
                                                         {"RONDO_SECRET", random_secret()}};
    if (options_.ranks > 1 && std::getenv("OMP_NUM_THREADS") == nullptr)
      all.emplace_back("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cpus() / options_.ranks)));
    return all;
  }

  void wait() {
    std::vector<pollfd> entries;
    std::vector<std::function<void()>> actions;
    const auto watch = [&](int descriptor, short events, std::function<void()> action) {
      entries.push_back({descriptor, events, 0});
      actions.push_back(std::move(action));
    };
    watch(signals_.descriptor(), POLLIN, [this] { hear_signals(); });
    for (RankOutput& output : outputs_)
      if (output.wants_input()) watch(output.descriptor(), POLLIN, [&output] { output.read_some(); });
    for (LineSink* sink : {&stdout_, &stderr_})
      if (sink->pending()) watch(sink->descriptor(), POLLOUT, [sink] { sink->write_some(); });
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_.left(1h));
    if (::poll(entries.data(), entries.size(), static_cast<int>(left.count())) <= 0) return;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].revents != 0) actions[i]();
  }

  void hear_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal == SIGCHLD) {
        look_at_ranks();
      } else if (*signal == SIGTSTP) {
        send_all(SIGTSTP);
        ::raise(SIGSTOP);  // the SIGCONT that wakes us comes here, and goes on to the ranks
      } else {
        pass_on(*signal);
      }
    }
  }

  void pass_on(int signal) {
    const bool ending =
        std::find(ending_signals.begin(), ending_signals.end(), signal) != ending_signals.end();
    if (ending && passed_on_.has_value()) return end_all();  // who asks twice means it
    if (ending) passed_on_ = signal;
    send_all(signal);
  }

  void look_at_ranks() {
    std::optional<std::size_t> first;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].running() || !ranks_[rank].look()) continue;
      // Of several at once, the one that a signal ended is the cause rather than a consequence.
      if (ranks_[rank].end()->failed() &&
          (!first || (ranks_[rank].end()->by_signal && !ranks_[*first].end()->by_signal)))
        first = rank;
    }
    if (first && !failed_) fail_because_of(*first);
    if (!any_running() && deadline_.is_never()) deadline_ = Deadline::after(drain_time);
  }

  void fail_because_of(std::size_t rank) {
    failed_ = rank;
    // Its last words come first.
    for (const std::size_t pipe : {2 * rank, 2 * rank + 1})
      if (outputs_[pipe].open()) outputs_[pipe].finish();
    const RankProcess::End& end = *ranks_[rank].end();
    const bool passed = end.by_signal && passed_on_ == end.number;
    say(fmt::format("rank {} {}{}{}", rank, end.text(), passed ? ", which was passed on to it" : "",
                    any_running() ? "; ending the other ranks" : ""));
    end_all();
  }

  void end_all() {
    if (ending_) {
      send_all(SIGKILL);
      return;
    }
    ending_ = true;
    send_all(SIGTERM);
    send_all(SIGCONT);  // who is stopped hears nothing else
    deadline_ = Deadline::after(grace);
  }

  void give_up_waiting() {
    gave_up_ = true;
    deadline_ = Deadline::never();
    std::vector<std::size_t> late;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].running()) late.push_back(rank);
    if (late.empty()) return;
    say(fmt::format("rank{} {} did not end within {} s of SIGTERM: killed", late.size() == 1 ? "" : "s",
                    fmt::join(late, ", "), grace.count()));
    send_all(SIGKILL);
  }

  void send_all(int signal) const {
    for (const RankProcess& rank : ranks_)
      if (rank.running() || ending_) rank.send(signal);
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); });
  }

  bool done() const {
    if (any_running()) return false;
    return gave_up_ || std::none_of(outputs_.begin(), outputs_.end(),
                                    [](const RankOutput& output) { return output.open(); });
  }

  void say(const std::string& text) { error_sink_.add_own_line("rondo: " + text); }

  const LaunchOptions& options_;
  Signals signals_;
  LineSink stdout_, stderr_;
  LineSink& error_sink_;  // one sink for both where they are one file, so that lines stay whole
  std::vector<RankProcess> ranks_;
  std::vector<RankOutput> outputs_;  // two for each rank
  std::optional<std::size_t> failed_;
  std::optional<int> passed_on_;  // the first ending signal that came from outside
  bool ending_ = false, gave_up_ = false;
  Deadline deadline_ = Deadline::never();
};

}  // namespace

int launch(const LaunchOptions& options) {
  fill_standard_descriptors();
  try {
    return Launcher(options).run();
  } catch (const CannotExecute& failure) {
    fmt::print(stderr, "rondo: cannot execute \"{}\": {}\n", failure.program, std::strerror(failure.error));
    return exit_cannot_execute;
  }
}

}  // namespace rondo
