#include "tests/test_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>

#include "src/fd.h"
#include "src/network.h"

namespace rondo::test {
namespace {

constexpr int port = 29'400;

void need(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what + ": " + std::strerror(errno));
}

void enter_namespace(pid_t of, const char* kind, int flag) {
  const std::string path = fmt::format("/proc/{}/ns/{}", of, kind);
  const Fd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  need(descriptor && ::setns(descriptor.get(), flag) == 0, "entering " + path);
}

// All of a holder's, and this process stays in its folder.
void enter_namespaces(pid_t of, bool as_user) {
  const Fd folder(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (as_user) enter_namespace(of, "user", CLONE_NEWUSER);
  enter_namespace(of, "net", CLONE_NEWNET);
  enter_namespace(of, "mnt", CLONE_NEWNS);
  need(folder && ::fchdir(folder.get()) == 0, "going back to the working folder");
}

// UCX looks for interfaces in /sys, which shows those of the host that mounted it. Where that is not allowed
// it stays as it is, which does if the machine has an eth0 too.
void show_own_interfaces() {
  need(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "making mounts private");
  [[maybe_unused]] const int refused = ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
}

void write_to(const char* path, const std::string& text) { std::ofstream(path) << text; }

// Root of a user namespace of our own.
void become_root() {
  const auto user = ::getuid(), group = ::getgid();
  need(::unshare(CLONE_NEWUSER) == 0, "unshare of a user namespace");
  write_to("/proc/self/setgroups", "deny");
  write_to("/proc/self/uid_map", fmt::format("0 {} 1", user));
  write_to("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

// Runs a command in a holder's namespaces.
void run_in(pid_t holder, bool as_user, const std::string& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      enter_namespaces(holder, as_user);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    } catch (const std::exception&) {
    }
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("failed: " + command);
}

std::string try_one() {
  if (ucx_version().empty()) return "Rondo was built without UCX, which joins hosts";
  try {
    const TestHosts hosts(1);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("no test hosts here: {}", error.what());
  }
}

}  // namespace

const std::string& TestHosts::obstacle() {
  static const std::string text = try_one();
  return text;
}

const TestHosts& TestHosts::shared(int count) {
  static std::map<int, TestHosts> made;
  return made.try_emplace(count, count).first->second;
}

TestHosts::TestHosts(int count) : as_user_(::geteuid() != 0) {
  try {
    switch_ = hold(-1);
    run_in(switch_, as_user_, "ip link add bridge type bridge && ip link set bridge up");
    for (int host = 0; host < count; ++host) {
      holders_.push_back(hold(switch_));
      run_in(switch_, as_user_,
             fmt::format("ip link add port{0} type veth peer name eth0 netns {1} && "
                         "ip link set port{0} master bridge up",
                         host, holders_.back()));
      // Without IPv6 nothing but what ranks send goes over the wires. One packet a segment, as on a real one.
      run_in(holders_.back(), as_user_,
             fmt::format("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up && "
                         "ip link set eth0 gso_max_segs 1 && "
                         "ip addr add {}/24 dev eth0 && ip link set eth0 up",
                         address(host)));
    }
    // The kernel takes its time to call a link up, and UCX does not use one that is not.
    for (const pid_t holder : holders_)
      run_in(
          holder, as_user_,
          "for i in $(seq 500); do ip link show eth0 | grep -q 'state UP' && exit; sleep 0.01; done; exit 1");
  } catch (...) {
    let_go();
    throw;
  }
}

TestHosts::~TestHosts() { let_go(); }

void TestHosts::let_go() {
  holders_.push_back(switch_);
  for (const pid_t holder : holders_) {
    if (holder <= 0) continue;
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
  }
  holders_.clear();
  switch_ = -1;
}

pid_t TestHosts::hold(pid_t switch_holder) const {
  int ends[2];
  need(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  const Fd ready(ends[0]);
  Fd done(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t holder = ::fork();
  need(holder >= 0, "fork");
  if (holder == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      if (as_user_ && switch_holder < 0) become_root();
      if (as_user_ && switch_holder >= 0) enter_namespace(switch_holder, "user", CLONE_NEWUSER);
      need(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "unshare of a network and a mount namespace");
      show_own_interfaces();
      [[maybe_unused]] const auto told = ::write(done.get(), "", 1);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    done.reset();
    while (::getppid() == parent) ::pause();
    ::_exit(0);
  }
  done.reset();
  char byte = 0;
  if (::read(ready.get(), &byte, 1) != 1) {
    ::waitpid(holder, nullptr, 0);
    throw std::runtime_error("a network namespace is not allowed");
  }
  return holder;
}

void TestHosts::enter(int host) const {
  enter_namespaces(holders_[static_cast<std::size_t>(host)], as_user_);
}

std::string TestHosts::address(int host) const { return fmt::format("10.91.0.{}", host + 1); }

void TestHosts::run(int host, const std::string& command) const {
  run_in(holders_[static_cast<std::size_t>(host)], as_user_, command);
}

void TestHosts::unplug(int host) const {
  run_in(switch_, as_user_, fmt::format("ip link set port{} down", host));
}

void TestHosts::plug_in(int host) const {
  run_in(switch_, as_user_, fmt::format("ip link set port{} up", host));
}

bool TestHosts::lose_packets(int host, int percent) const {
  try {
    run(host, fmt::format("nft add table inet loss && "
                          "nft 'add chain inet loss in {{ type filter hook input priority 0; }}' && "
                          "nft add rule inet loss in iifname eth0 numgen random mod 100 lt {} drop",
                          percent));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void TestHosts::remove(int host) const { run_in(switch_, as_user_, fmt::format("ip link del port{}", host)); }

int hosts_of(const Seating& seating) { return 1 + *std::max_element(seating.begin(), seating.end()); }

std::shared_ptr<Communicator> join_on_hosts(const TestHosts& hosts, const Seating& seating, int rank,
                                            CommunicatorOptions options) {
  hosts.enter(seating[static_cast<std::size_t>(rank)]);
  LaunchEnvironment launch{};
  launch.rank = rank;
  launch.size = static_cast<int>(seating.size());
  launch.master_address = hosts.address(seating.front());
  launch.master_port = port;
  launch.secret = "of the tests";
  return Communicator::create(launch, std::move(options));
}

void run_on_hosts(const TestHosts& hosts, const Seating& seating,
                  const std::function<void(Communicator&)>& body, CommunicatorOptions options) {
  run_processes(static_cast<int>(seating.size()),
                [&](int rank) { body(*join_on_hosts(hosts, seating, rank, options)); });
}

}  // namespace rondo::test
