// How far a long loop is, on stderr, and only where stderr is a terminal. Loops of less than about a second
// show nothing. What was drawn is wiped when the bar goes, so that it never stands among results.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rondo {

class ProgressBar {
 public:
  ProgressBar(std::string label, std::uint64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(std::uint64_t by = 1);
  // Wipes it now, for text that goes to the same terminal. The next advance() may draw it again.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  void draw(Clock::time_point now);

  std::string label_;
  std::uint64_t total_, done_ = 0;
  bool terminal_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), next_draw_;
};

// Such as "3 s", "2 min 05 s", "1 h 04 min".
std::string duration_text(std::chrono::seconds duration);

// The line that a bar draws, without its escape sequences: what tests look at.
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total,
                          std::chrono::milliseconds elapsed, std::size_t width);

}  // namespace rondo
