#include "tests/slow_wire.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "src/fd.h"
#include "src/socket.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Of an IPv4 header. Host h has an address that ends with h + 1.
constexpr std::size_t last_byte_of_destination = 19;

// In a process of its own, which ends with the error's number.
Fd open_tun() {
  Fd tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq request{};
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!tun || ::ioctl(tun.get(), TUNSETIFF, &request) != 0) ::_exit(errno);
  return tun;
}

// Opened by a process on that host, which hands it over.
Fd open_tun_on(const TestHosts& hosts, int host) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    throw std::runtime_error(std::strerror(errno));
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  const Deadline deadline = Deadline::after(10s);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      hosts.enter(host);
      send_descriptor(theirs, open_tun(), deadline);
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(EIO);
    }
  }
  theirs.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0)
    throw std::runtime_error(
        fmt::format("no TUN device on a test host: {}", std::strerror(WEXITSTATUS(status))));
  return receive_descriptor(ours, deadline);
}

struct Packet {
  Clock::time_point due;
  std::size_t to;
  std::vector<std::byte> bytes;
};

class Carrier {
 public:
  Carrier(std::vector<Fd> tuns, std::chrono::milliseconds delay, const std::atomic<bool>& is_cut)
      : tuns_(std::move(tuns)), delay_(delay), is_cut_(is_cut) {}

  [[noreturn]] void carry_for_ever() {
    while (true) {
      wait();
      for (const Fd& tun : tuns_) take_from(tun);
      for (; !packets_.empty() && packets_.front().due <= Clock::now(); packets_.pop_front()) hand_on();
    }
  }

 private:
  void wait() const {
    std::vector<pollfd> entries;
    for (const Fd& tun : tuns_) entries.push_back({tun.get(), POLLIN, 0});
    const auto left = packets_.empty() ? 100ms : packets_.front().due - Clock::now();
    ::poll(entries.data(), entries.size(),
           std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count())));
  }

  void take_from(const Fd& tun) {
    std::array<std::byte, 2048> room;
    for (ssize_t got; (got = ::read(tun.get(), room.data(), room.size())) > 0;) {
      const auto bytes = static_cast<std::size_t>(got);
      if (is_cut_ || bytes <= last_byte_of_destination) continue;
      const auto to = static_cast<std::size_t>(room[last_byte_of_destination]) - 1;
      if (to < tuns_.size())
        packets_.push_back({Clock::now() + delay_, to, {room.begin(), room.begin() + got}});
    }
  }

  void hand_on() {
    const Packet& packet = packets_.front();
    [[maybe_unused]] const auto lost_if_full =
        ::write(tuns_[packet.to].get(), packet.bytes.data(), packet.bytes.size());
  }

  std::vector<Fd> tuns_;  // by host
  std::chrono::milliseconds delay_;
  const std::atomic<bool>& is_cut_;
  std::deque<Packet> packets_;  // as they came, hence as they are due
};

std::string try_one() {
  if (!TestHosts::obstacle().empty()) return TestHosts::obstacle();
  try {
    const TestHosts hosts(1);
    const SlowWire wire(hosts, 1, 0ms);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

const std::string& SlowWire::obstacle() {
  static const std::string text = try_one();
  return text;
}

SlowWire::SlowWire(const TestHosts& hosts, int count, std::chrono::milliseconds delay) {
  std::vector<Fd> tuns;
  for (int host = 0; host < count; ++host) {
    hosts.remove(host);
    tuns.push_back(open_tun_on(hosts, host));
    hosts.run(host, fmt::format("ip addr add {}/24 dev eth0 && ip link set eth0 up", hosts.address(host)));
  }
  void* memory = ::mmap(nullptr, sizeof *is_cut_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  is_cut_ = new (memory) std::atomic<bool>(false);
  carrier_ = ::fork();
  if (carrier_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Carrier(std::move(tuns), delay, *is_cut_).carry_for_ever();
}

SlowWire::~SlowWire() {
  ::kill(carrier_, SIGKILL);
  ::waitpid(carrier_, nullptr, 0);
  ::munmap(is_cut_, sizeof *is_cut_);
}

}  // namespace rondo::test
