// One rank of a launched program: a child process with the environment of its rank, in a process group of its
// own, which dies with the launcher.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/fd.h"

namespace rondo {

struct RankStart {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of the launcher's own
  std::vector<int> cpus;                                         // to run on; empty: any
  int output, error;                                             // become its stdout and stderr
  bool gets_input;                                               // inherits stdin, else reads nothing
  int kept_descriptor;                                           // stays open; -1: none
  sigset_t signal_mask;
};

class RankProcess {
 public:
  // Returns when the program runs. Throws an Error (system) when there can be no more processes, and
  // CannotExecute when the program cannot be run.
  explicit RankProcess(const RankStart& start);
  // Kills what still runs of it.
  ~RankProcess();
  RankProcess(RankProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), end_(other.end_) {}
  RankProcess& operator=(RankProcess&&) = delete;

  struct End {
    bool by_signal;
    int number;  // the signal or the exit status

    bool failed() const { return by_signal || number != 0; }
    int exit_status() const;
    std::string text() const;  // "exited with status 3"
  };

  // Looks whether it has ended. The process keeps its number until this object goes, so that its group can be
  // told apart from any other until then.
  const std::optional<End>& look();
  const std::optional<End>& end() const { return end_; }
  bool running() const { return !end_.has_value(); }
  // To the whole group: a rank may be a shell with children.
  void send(int signal) const;

 private:
  pid_t pid_;
  std::optional<End> end_;
};

struct CannotExecute {
  std::string program;
  int error;  // errno
};

}  // namespace rondo
