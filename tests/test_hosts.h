// Hosts for tests: network namespaces, each with an interface eth0 on one bridge. A process holds each of
// them, and they go with it: nothing is left behind, also after a kill.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/communicator.h"
#include "tests/ranks.h"

namespace rondo::test {

class TestHosts {
 public:
  // What keeps them from being made here; empty: nothing.
  static const std::string& obstacle();

  // The same hosts for every test of this program that wants so many.
  static const TestHosts& shared(int count);

  explicit TestHosts(int count);
  ~TestHosts();
  TestHosts(const TestHosts&) = delete;
  TestHosts& operator=(const TestHosts&) = delete;

  // Moves this process, which must have one thread, to a host, for good.
  void enter(int host) const;
  std::string address(int host) const;
  void unplug(int host) const;
  void plug_in(int host) const;
  // Of the packets that come to a host, so many in a hundred are lost from now on. False: that cannot be done
  // here.
  bool lose_packets(int host, int percent) const;
  // Runs a shell command on a host; throws when it fails.
  void run(int host, const std::string& command) const;
  // As a machine that loses its power: no packet leaves it any more. Its processes are the caller's to kill.
  void remove(int host) const;

 private:
  pid_t hold(pid_t switch_holder) const;
  void let_go();

  bool as_user_;                // in a user namespace, since this is not root
  pid_t switch_ = -1;           // holds the bridge's namespace
  std::vector<pid_t> holders_;  // by host
};

// By rank: on which host it is.
using Seating = std::vector<int>;
int hosts_of(const Seating& seating);

// One rank of a communicator over the hosts.
std::shared_ptr<Communicator> join_on_hosts(const TestHosts& hosts, const Seating& seating, int rank,
                                            CommunicatorOptions options = test_options());
// Runs `body` as every rank.
void run_on_hosts(const TestHosts& hosts, const Seating& seating,
                  const std::function<void(Communicator&)>& body,
                  CommunicatorOptions options = test_options());

}  // namespace rondo::test
