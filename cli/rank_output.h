// The ranks' output: lines from many pipes go, whole and with their rank's tag, to stdout or stderr.
// Nothing here blocks: the launcher asks poll() first.
#pragma once

#include <string>
#include <string_view>

#include "src/fd.h"

namespace rondo {

// Where lines go.
class LineSink {
 public:
  LineSink(int descriptor, bool tags);

  // `line` is without its newline.
  void add_line(int rank, std::string_view line);
  void add_own_line(std::string_view line);

  int descriptor() const { return descriptor_; }
  bool pending() const { return !queue_.empty(); }
  // So much waits that the ranks should wait too.
  bool full() const { return queue_.size() > most_waiting; }
  // Nobody reads any more, as after `| head`.
  bool broken() const { return broken_; }
  // Call when poll() found the descriptor writable: writes as much as surely does not block.
  void write_some();
  // Writes all that waits, however long that takes.
  void flush();

 private:
  static constexpr std::size_t most_waiting = 1 << 20;

  void write_up_to(std::size_t most);

  int descriptor_;
  bool tags_, colour_, broken_ = false;
  std::string queue_;
};

// One pipe of one rank.
class RankOutput {
 public:
  RankOutput(int rank, Fd pipe, LineSink& sink) : rank_(rank), pipe_(std::move(pipe)), sink_(&sink) {}

  int descriptor() const { return pipe_.get(); }
  bool open() const { return static_cast<bool>(pipe_); }
  bool wants_input() const { return open() && !sink_->full(); }
  // Reads what is there; closes at the end of file, or when nobody reads the sink.
  void read_some();
  // Reads all that is there now, and gives up what has no newline yet as a line.
  void finish();

 private:
  bool read_once();
  void take(std::string_view text);
  void close();

  int rank_;
  Fd pipe_;
  LineSink* sink_;
  std::string line_;  // what has come of a line that is not whole yet
};

}  // namespace rondo
