// A slow wire between test hosts, in the place of their bridge: a process of ours carries each packet from
// one host's TUN device to another's, later, and not at all while the wire is cut.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "tests/test_hosts.h"

namespace rondo::test {

class SlowWire {
 public:
  // What keeps TUN devices from being made here; empty: nothing.
  static const std::string& obstacle();

  // Takes the hosts' interfaces away, and gives them others with the same names and addresses. `delay` is one
  // way. The hosts are to be without ranks yet.
  SlowWire(const TestHosts& hosts, int count, std::chrono::milliseconds delay);
  ~SlowWire();
  SlowWire(const SlowWire&) = delete;
  SlowWire& operator=(const SlowWire&) = delete;

  // What comes while the wire is cut is lost.
  void cut() { *is_cut_ = true; }
  void mend() { *is_cut_ = false; }

 private:
  std::atomic<bool>* is_cut_ = nullptr;  // seen by the carrier too
  pid_t carrier_ = -1;
};

}  // namespace rondo::test
