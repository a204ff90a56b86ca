#include "cli/rank_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "cli/style.h"

namespace rondo {
namespace {

// A line longer than this is cut: somebody writes without end.
constexpr std::size_t most_line_bytes = 1 << 20;

}  // namespace

LineSink::LineSink(int descriptor, bool tags)
    : descriptor_(descriptor), tags_(tags), colour_(colour_on(descriptor)) {}

void LineSink::add_line(int rank, std::string_view line) {
  if (broken_) return;
  if (tags_) queue_ += paint_by_number(fmt::format("[{}]", rank), rank, colour_) + " ";
  queue_.append(line);
  queue_ += '\n';
}

void LineSink::add_own_line(std::string_view line) {
  if (broken_) return;
  queue_.append(line);
  queue_ += '\n';
}

// A pipe that poll() finds writable has room for PIPE_BUF bytes.
void LineSink::write_some() { write_up_to(PIPE_BUF); }

void LineSink::flush() {
  while (pending()) write_up_to(queue_.size());
}

void LineSink::write_up_to(std::size_t most) {
  const ssize_t written = ::write(descriptor_, queue_.data(), std::min(most, queue_.size()));
  if (written >= 0) {
    queue_.erase(0, static_cast<std::size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    broken_ = true;
    queue_.clear();
  }
}

void RankOutput::read_some() {
  if (sink_->broken()) return close();
  read_once();
}

// True if there may be more.
bool RankOutput::read_once() {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    take({buffer.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && errno == EINTR) return true;
  if (got == 0 || errno != EAGAIN) close();
  return false;
}

void RankOutput::finish() {
  while (open() && read_once()) {
  }
  if (!line_.empty()) sink_->add_line(rank_, line_);
  line_.clear();
}

void RankOutput::take(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    line_.append(text.substr(0, end));
    if (end == std::string_view::npos && line_.size() < most_line_bytes) return;
    sink_->add_line(rank_, line_);
    line_.clear();
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void RankOutput::close() {
  pipe_.reset();
  if (!line_.empty()) sink_->add_line(rank_, line_);
  line_.clear();
}

}  // namespace rondo
