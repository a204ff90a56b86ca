// How ranks find one another: over abstract Unix names and TCP, with ranks that do not come, that clash, and
// with strangers at the door.
#include "src/rendezvous.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "src/bootstrap.h"
#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

enum class Door { unix_name, tcp };

int free_port() {
  const Fd probe = listen_on({.unix_name = {}, .host = "127.0.0.1", .port = 0});
  return bound_port(probe);
}

// A place to meet; every rank makes its own copy.
class Rendezvouses : public ::testing::TestWithParam<Door> {
 protected:
  MeetingPlace place() const {
    if (GetParam() == Door::unix_name) return id_.meeting_place();
    MeetingPlace place;
    place.endpoint = {.unix_name = {}, .host = "127.0.0.1", .port = port_};
    place.secret = secret_from("our secret");
    return place;
  }

  // The message that each of `ranks` (a rank and the size it believes in) gets; "" where it met the others.
  std::vector<std::string> messages(const std::vector<std::pair<int, int>>& ranks,
                                    std::chrono::milliseconds timeout) {
    std::vector<std::string> texts(ranks.size());
    run_threads(static_cast<int>(ranks.size()), [&](int index) {
      const auto [rank, size] = ranks[static_cast<std::size_t>(index)];
      // Rank 0 is there before the others, as after a launch in order.
      if (rank != 0) std::this_thread::sleep_for(20ms);
      try {
        meet(place(), rank, size, Deadline::after(timeout))->exchange({}, Deadline::after(timeout));
      } catch (const Error& error) {
        texts[static_cast<std::size_t>(index)] = error.what();
      }
    });
    return texts;
  }

  void expect_all(const std::vector<std::string>& texts, const std::string& part) {
    for (const std::string& text : texts)
      EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\"";
  }

  UniqueId id_ = UniqueId::make();
  int port_ = free_port();
};

TEST_P(Rendezvouses, ExchangesBytesOfUnevenSizes) {
  run_threads(5, [&](int rank) {
    const Deadline deadline = Deadline::after(20s);
    const auto rendezvous = meet(place(), rank, 5, deadline);
    for (int round = 0; round < 3; ++round) {
      const std::vector<std::byte> mine(static_cast<std::size_t>(rank * 70'000 + round), std::byte(rank));
      const auto all = rendezvous->exchange(mine, deadline);
      ASSERT_EQ(all.size(), 5u);
      for (std::size_t other = 0; other < 5; ++other)
        EXPECT_EQ(all[other],
                  std::vector<std::byte>(other * 70'000 + static_cast<std::size_t>(round), std::byte(other)));
    }
  });
}

TEST_P(Rendezvouses, NameTheRankThatDoesNotCome) {
  const auto start = Clock::now();
  expect_all(messages({{0, 4}, {1, 4}, {3, 4}}, 500ms), "rank 2 did not come to the start (world size 4)");
  EXPECT_LT(Clock::now() - start, 4s);
}

TEST_P(Rendezvouses, NameRankZeroWhenItDoesNotCome) {
  expect_all(messages({{1, 3}, {2, 3}}, 300ms), "rank 0 did not come");
}

TEST_P(Rendezvouses, NameTheRankThatTwoClaim) {
  expect_all(messages({{0, 3}, {1, 3}, {1, 3}}, 5s), "two processes claim rank 1");
}

TEST_P(Rendezvouses, TellOfDifferentWorldSizes) {
  expect_all(messages({{0, 4}, {1, 3}}, 5s), "world sizes differ: rank 0 says 4, rank 1 says 3");
}

TEST_P(Rendezvouses, NoticeARankThatDiesBeforeAllHaveCome) {
  std::string text;
  run_threads(2, [&](int index) {
    if (index == 0) {
      text = error_message([&] { meet(place(), 0, 3, Deadline::after(20s)); });
      return;
    }
    const pid_t child = ::fork();
    if (child == 0) {
      std::thread([] { std::this_thread::sleep_for(300ms), ::_exit(0); }).detach();
      meet(place(), 2, 3, Deadline::after(20s));
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  });
  EXPECT_NE(text.find("rank 2 has ended before all ranks had come"), std::string::npos) << text;
}

TEST_P(Rendezvouses, TurnStrangersAwayUndisturbed) {
  const Endpoint endpoint = place().endpoint;
  run_threads(4, [&](int rank) {
    if (rank < 3) {
      if (rank == 2) std::this_thread::sleep_for(400ms);  // time for the strangers
      const Deadline deadline = Deadline::after(20s);
      EXPECT_EQ(meet(place(), rank, 3, deadline)->exchange({}, deadline).size(), 3u);
      return;
    }
    const Deadline deadline = Deadline::after(5s);
    std::vector<Fd> open;
    for (int visit = 0; visit < 20; ++visit) {
      open.push_back(connect_to(endpoint, deadline));  // silent, and stays
      const Fd rude = connect_to(endpoint, deadline);
      const std::vector<std::byte> garbage(200, std::byte{'G'});
      try {
        send_all(rude, garbage, deadline);
      } catch (const Error&) {
      }
    }
    // One who knows how to greet, but not the secret.
    MeetingPlace guess = place();
    guess.secret = secret_from("a wrong secret");
    const std::string text = error_message([&] { meet(std::move(guess), 1, 3, deadline); });
    EXPECT_NE(text.find("RONDO_SECRET"), std::string::npos) << text;
  });
}

// More than the lobby holds of those who have not said who they are.
TEST_P(Rendezvouses, SurviveACrowdOfSilentStrangers) {
  const Endpoint endpoint = place().endpoint;
  run_threads(2, [&](int rank) {
    const Deadline deadline = Deadline::after(20s);
    if (rank == 0) {
      EXPECT_EQ(meet(place(), 0, 2, deadline)->exchange({}, deadline).size(), 2u);
      return;
    }
    std::vector<Fd> crowd;
    for (int visit = 0; visit < 600; ++visit) crowd.push_back(connect_to(endpoint, deadline));
    EXPECT_EQ(meet(place(), 1, 2, deadline)->exchange({}, deadline).size(), 2u);
  });
}

TEST_P(Rendezvouses, WelcomeThreeHundredRanksAtOnce) {
  run_threads(300, [&](int rank) {
    const Deadline deadline = Deadline::after(30s);
    EXPECT_EQ(meet(place(), rank, 300, deadline)->exchange({}, deadline).size(), 300u);
  });
}

TEST_P(Rendezvouses, MakeOneRanksFailureEverybodys) {
  std::vector<std::string> texts(3);
  run_threads(3, [&](int rank) {
    const Deadline deadline = Deadline::after(20s);
    const auto rendezvous = meet(place(), rank, 3, deadline);
    texts[static_cast<std::size_t>(rank)] = error_message([&] {
      together(*rendezvous, "testing", deadline, [&] {
        if (rank == 1) fail(ErrorKind::system, "no room");
      });
    });
  });
  expect_all(texts, "rank 1 failed while testing: no room");
}

INSTANTIATE_TEST_SUITE_P(Doors, Rendezvouses, ::testing::Values(Door::unix_name, Door::tcp),
                         [](const auto& info) { return info.param == Door::tcp ? "tcp" : "unix"; });

TEST(Rendezvous, TellsOfAPortInUse) {
  const Fd held = listen_on({.unix_name = {}, .host = "127.0.0.1", .port = 0});
  MeetingPlace place;
  place.endpoint = {.unix_name = {}, .host = "127.0.0.1", .port = bound_port(held)};
  const std::string text = error_message([&] { meet(std::move(place), 0, 2, Deadline::after(5s)); });
  EXPECT_NE(text.find("is in use"), std::string::npos) << text;
  EXPECT_NE(text.find("RONDO_MASTER_PORT"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(bound_port(held))), std::string::npos) << text;
}

TEST(Rendezvous, TellsOfASecondRankZero) {
  const UniqueId id = UniqueId::make();
  const Fd held = listen_on(id.meeting_place().endpoint);
  const std::string text = error_message([&] { meet(id.meeting_place(), 0, 2, Deadline::after(5s)); });
  EXPECT_NE(text.find("two processes claim rank 0"), std::string::npos) << text;
}

MeetingPlace of_a_job(const char* name) {
  MeetingPlace place;
  place.endpoint.unix_name = name;
  place.same_user = true;
  return place;
}

// The name that a job of mpirun meets at is no secret.
TEST(Rendezvous, OtherUsersAreStrangersToAJob) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root: cannot be another user";
  constexpr uid_t nobody = 65534;
  const auto as_nobody = [](auto body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (::setuid(nobody) != 0) ::_exit(2);
      ::_exit(body());
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  };
  const Deadline soon = Deadline::after(std::chrono::seconds(20));
  // Somebody else in rank 0's place.
  const Fd held = listen_on(of_a_job("rondo-test-job-a").endpoint);
  as_nobody([&] {
    try {
      meet(of_a_job("rondo-test-job-a"), 1, 2, soon);
    } catch (const Error& error) {
      return std::strstr(error.what(), "another user's process") == nullptr ? 1 : 0;
    }
    return 1;
  });
  // Somebody else in rank 1's: rank 0 does not take it, and goes on waiting for its own.
  std::thread zero([&] { EXPECT_NE(meet(of_a_job("rondo-test-job-b"), 0, 2, soon), nullptr); });
  as_nobody([&] {
    MeetingPlace place = of_a_job("rondo-test-job-b");
    place.same_user = false;  // it would not look itself
    try {
      meet(std::move(place), 1, 2, soon);
    } catch (const Error&) {
      return 0;
    }
    return 1;
  });
  EXPECT_NE(meet(of_a_job("rondo-test-job-b"), 1, 2, soon), nullptr);
  zero.join();
}

TEST(Rendezvous, TellsOfANameThatDoesNotResolve) {
  MeetingPlace place;
  place.endpoint = {.unix_name = {}, .host = "no-such-host.invalid", .port = 29501};
  const std::string text = error_message([&] { meet(std::move(place), 1, 2, Deadline::after(5s)); });
  EXPECT_NE(text.find("MASTER_ADDR=\"no-such-host.invalid\""), std::string::npos) << text;
}

// A network of its own, where clients are given ports from a range of one. What stood in the way, if
// anything.
std::string make_network_with_one_port(int port) {
  if (::unshare(CLONE_NEWNET) != 0) return fmt::format("unshare: {}", std::strerror(errno));
  const Fd socket(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &loopback) != 0) return fmt::format("lo: {}", std::strerror(errno));
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << port << " " << port << std::flush;
  return range ? "" : "no write to ip_local_port_range";
}

// A client is given a free port of a range: trying one of that range again and again it may be connected to
// itself, and would then hold the port against rank 0.
TEST(Rendezvous, IsNeverConnectedToItself) {
  constexpr int port = 40'001;
  const pid_t probe = ::fork();
  if (probe == 0) ::_exit(make_network_with_one_port(port).empty() ? 0 : 1);
  int status = 0;
  ::waitpid(probe, &status, 0);
  if (status != 0) GTEST_SKIP() << "no network namespace to be had here";
  run_processes(1, [](int) {
    ASSERT_EQ(make_network_with_one_port(port), "");
    const std::string text = error_message(
        [] { connect_to({.unix_name = {}, .host = "127.0.0.1", .port = port}, Deadline::after(200ms)); });
    EXPECT_NE(text.find("rank 0 did not come"), std::string::npos) << text;
  });
}

TEST(Rendezvous, RefusesRanksAndSizesThatCannotBe) {
  EXPECT_THROW(meet({}, 0, 0, Deadline::never()), Error);
  EXPECT_THROW(meet({}, 3, 3, Deadline::never()), Error);
  EXPECT_THROW(meet({}, -1, 3, Deadline::never()), Error);
  EXPECT_THROW(UniqueId{}.meeting_place(), Error);
}

TEST(Rendezvous, NeverMixesJobsThatStartTogether) {
  constexpr int jobs = 20;
  std::vector<UniqueId> ids;
  for (int job = 0; job < jobs; ++job) ids.push_back(UniqueId::make());
  run_threads(2 * jobs, [&](int index) {
    const int job = index % jobs, rank = index / jobs;
    const Deadline deadline = Deadline::after(30s);
    const auto rendezvous = meet(ids[static_cast<std::size_t>(job)].meeting_place(), rank, 2, deadline);
    for (const auto& bytes : rendezvous->exchange(std::as_bytes(std::span(&job, 1)), deadline)) {
      int other = -1;
      std::memcpy(&other, bytes.data(), sizeof other);
      EXPECT_EQ(other, job);
    }
  });
}

// Two jobs that were given one address and port: one gets it, the other is told, and nobody joins a stranger.
TEST(Rendezvous, JobsAtOnePortNeverJoin) {
  const int port = free_port();
  std::vector<std::string> texts(4);
  run_threads(4, [&](int index) {
    const int job = index / 2, rank = index % 2;
    MeetingPlace place;
    place.endpoint = {.unix_name = {}, .host = "127.0.0.1", .port = port};
    place.secret = secret_from(fmt::format("job {}", job));
    try {
      const Deadline deadline = Deadline::after(2s);
      const auto rendezvous = meet(std::move(place), rank, 2, deadline);
      for (const auto& bytes : rendezvous->exchange(std::as_bytes(std::span(&job, 1)), deadline)) {
        int other = -1;
        std::memcpy(&other, bytes.data(), sizeof other);
        EXPECT_EQ(other, job);
      }
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(index)] = error.what();
    }
  });
  for (const std::string& text : texts)
    if (!text.empty()) {
      EXPECT_TRUE(text.find("in use") != std::string::npos ||
                  text.find("RONDO_SECRET") != std::string::npos ||
                  text.find("did not come") != std::string::npos)
          << text;
    }
}

}  // namespace
}  // namespace rondo::test
