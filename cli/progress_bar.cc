#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/style.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

// A loop that is done before is not worth a bar.
constexpr auto first_draw = 700ms, redraw = 100ms;

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(std::chrono::seconds duration) {
  const auto s = duration.count();
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total,
                          std::chrono::milliseconds elapsed, std::size_t width) {
  const double share =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const std::string left =
      done == 0 ? "?"
                : duration_text(std::chrono::ceil<std::chrono::seconds>(elapsed * ((1 - share) / share)));
  const std::string figures = fmt::format(" {:3.0f}%  {}/{}  {} left", share * 100, done, total, left);
  const std::size_t used = width_of(label) + 1 + figures.size();
  if (used + 10 > width) return label + figures;
  const std::size_t room = std::min<std::size_t>(width - used - 1, 40);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(room));
  std::string bar;
  for (std::size_t i = 0; i < room; ++i) bar += i < filled ? "━" : "·";
  return label + " " + bar + figures;
}

ProgressBar::ProgressBar(std::string label, std::uint64_t total)
    : label_(std::move(label)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      next_draw_(start_ + first_draw) {}

ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::advance(std::uint64_t by) {
  done_ += by;
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now >= next_draw_) draw(now);
}

void ProgressBar::draw(Clock::time_point now) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - start_);
  const std::string line = progress_line(label_, done_, total_, elapsed, terminal_width());
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
  next_draw_ = now + redraw;
}

void ProgressBar::hide() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace rondo
