#include "src/doorbell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "src/error.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_watches = 128;  // FUTEX_WAITV_MAX

timespec to_timespec(std::chrono::nanoseconds time) {
  return {static_cast<time_t>(time / 1s), static_cast<long>((time % 1s).count())};
}

void sleep_at_one(Doorbell& bell, std::uint32_t seen, std::chrono::nanoseconds most) {
  const timespec time = to_timespec(most);
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace

void ring(Doorbell& bell) {
  if (bell.waiters.load(std::memory_order_seq_cst) == 0) return;
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sound(const Fd& alarm, Doorbell& bell) {
  if (bell.pollers.load(std::memory_order_seq_cst) != 0) ::eventfd_write(alarm.get(), 1);
}

Fd make_alarm() {
  Fd alarm(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!alarm) fail(ErrorKind::system, "eventfd: {}", std::strerror(errno));
  return alarm;
}

// The alarm stays on until a thread comes that is alone here. One that comes between the two steps may have
// its sound taken away: the first one then looks in its place, and rings when it ends the other's call.
Lookout::Lookout(const Fd& alarm, Doorbell& bell) : bell_(&bell) {
  eventfd_t times = 0;
  if (bell.pollers.fetch_add(1, std::memory_order_seq_cst) == 0) ::eventfd_read(alarm.get(), &times);
}

Nap::Nap(std::span<Doorbell* const> bells) {
  watches_.reserve(bells.size());
  for (Doorbell* bell : bells) {
    watches_.push_back({bell, bell->rings.load(std::memory_order_seq_cst)});
    bell->waiters.fetch_add(1, std::memory_order_seq_cst);
  }
}

Nap::~Nap() {
  for (const Watch& watch : watches_) watch.bell->waiters.fetch_sub(1, std::memory_order_seq_cst);
}

void Nap::sleep(std::chrono::nanoseconds most) {
  if (watches_.size() == 1) return sleep_at_one(*watches_[0].bell, watches_[0].seen, most);
  std::vector<futex_waitv> entries;
  for (const Watch& watch : std::span(watches_).first(std::min(watches_.size(), most_watches))) {
    entries.push_back({});
    entries.back().val = watch.seen;
    entries.back().uaddr = reinterpret_cast<std::uintptr_t>(&watch.bell->rings);
    entries.back().flags = FUTEX_32;
  }
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const timespec until =
      to_timespec(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) + most);
  const long result = ::syscall(SYS_futex_waitv, entries.data(), entries.size(), 0, &until, CLOCK_MONOTONIC);
  // Kernels before 5.16 and some sandboxes lack futex_waitv: look at the first bell, and soon again at all.
  if (result < 0 && (errno == ENOSYS || errno == EPERM))
    sleep_at_one(*watches_[0].bell, watches_[0].seen, std::min<std::chrono::nanoseconds>(most, 1ms));
}

}  // namespace rondo
