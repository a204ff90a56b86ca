// The conformance suite of transports: order, bounds, uneven sizes, both directions at once.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "src/network.h"
#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

enum class Over { shared_memory, ucx };

struct Setup {
  Over over;
  std::size_t stream_bytes;  // around which sizes are tried; in shared memory, a stream's room
  RanksAre kind;
};

using Payload = std::vector<unsigned char>;

// Tells every byte of every message of every pair apart.
unsigned char byte_at(int from, int to, std::size_t message, std::size_t index) {
  return static_cast<unsigned char>(from * 101 + to * 37 +
                                    static_cast<int>(message * 13 + index * 7 + index / 251));
}

Payload payload(int from, int to, std::size_t message, std::size_t bytes) {
  Payload bytes_of(bytes);
  for (std::size_t i = 0; i < bytes; ++i) bytes_of[i] = byte_at(from, to, message, i);
  return bytes_of;
}

// `memory` in `pieces` extents of uneven sizes, one of them empty.
Extents cut(Payload& memory, std::size_t pieces) {
  Extents extents;
  auto* data = reinterpret_cast<std::byte*>(memory.data());
  std::size_t offset = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t left = memory.size() - offset;
    const std::size_t bytes = piece + 1 == pieces ? left : std::min(left, memory.size() / pieces / 2 + piece);
    extents.push_back({data + offset, bytes});
    if (piece == 0) extents.push_back({data, 0});
    offset += bytes;
  }
  return extents;
}

class Transports : public ::testing::TestWithParam<Setup> {
 protected:
  using Body = std::function<void(Transport&, int)>;

  // Runs `body` as each rank of `size`, each with its own end of the transport.
  void run(int size, const Body& body) {
    switch (GetParam().over) {
      case Over::shared_memory:
        return run_over_shared_memory(size, body);
      case Over::ucx:
        return run_over_ucx(size, body);
    }
  }

  void run_over_shared_memory(int size, const Body& body) {
    const std::size_t room = GetParam().stream_bytes;
    const Fd memory = Segment::create(size, {room, 0});
    run_as_ranks(size, [&](int rank) {
      const auto transport = make_shm_transport(Segment::map(memory, size, {room, 0}), rank, size);
      body(*transport, rank);
    });
  }

  void run_over_ucx(int size, const Body& body) {
    if (ucx_version().empty()) GTEST_SKIP() << "built without UCX";
    const UniqueId id = UniqueId::make();
    run_as_ranks(size, [&](int rank) {
      const Deadline deadline = Deadline::after(30s);
      const auto rendezvous = meet(id.meeting_place(), rank, size, deadline);
      const auto network = make_ucx_network(rank, size, "");
      network->set_addresses(rendezvous->exchange(network->address(), deadline));
      body(*network, rank);
      network->flush(deadline);
      rendezvous->exchange({}, deadline);  // else a rank's end would be an error of those still at it
    });
  }

  void run_as_ranks(int size, const std::function<void(int)>& one) {
    if (GetParam().kind == RanksAre::processes)
      run_processes(size, one);
    else
      run_threads(size, one);
  }

  static void finish(Transport& transport, const std::vector<Ticket>& tickets) {
    const auto deadline = Deadline::after(30s);
    for (const Ticket& ticket : tickets) {
      while (!transport.done(ticket)) {
        if (!transport.progress()) ::sched_yield();
        if (deadline.passed()) return ADD_FAILURE() << "the transfer does not end", void();
      }
    }
  }

  std::vector<std::size_t> sizes() const {
    const std::size_t room = GetParam().stream_bytes;
    return {1, 3, room - 1, room, room + 1, 0, 2 * room + 7, 5, room / 4, 3 * room};
  }
};

TEST_P(Transports, EveryPairBothWaysAtOnceInOrder) {
  run(3, [&](Transport& transport, int rank) {
    std::vector<Ticket> tickets;
    std::vector<Payload> sent, got;
    std::vector<std::pair<int, std::size_t>> origin;
    sent.reserve(100), got.reserve(100);
    for (std::size_t message = 0; message < sizes().size(); ++message) {
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        const std::size_t bytes = sizes()[message];
        got.emplace_back(bytes);
        origin.emplace_back(peer, message);
        tickets.push_back(
            transport.post_receive(peer, Channel::collective, cut(got.back(), 1 + message % 4)));
        sent.push_back(payload(rank, peer, message, bytes));
        tickets.push_back(transport.post_send(peer, Channel::collective,
                                              cut(sent.back(), 1 + (message + 2) % 5), ByteClass::payload));
      }
    }
    finish(transport, tickets);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto [peer, message] = origin[i];
      EXPECT_TRUE(got[i] == payload(peer, rank, message, sizes()[message]))
          << "message " << message << " from " << peer;
    }
    std::size_t total = 0;
    for (const std::size_t bytes : sizes()) total += bytes;
    for (int peer = 0; peer < 3; ++peer)
      EXPECT_EQ(transport.traffic().of(ByteClass::payload)[static_cast<std::size_t>(peer)],
                peer == rank ? 0 : total);
  });
}

TEST_P(Transports, WrapsAroundManyTimesWithSizesThatDoNotDivide) {
  run(2, [&](Transport& transport, int rank) {
    std::mt19937 random(1);  // the same on both sides
    for (std::size_t message = 0; message < 300; ++message) {
      const std::size_t bytes = random() % (std::min<std::size_t>(GetParam().stream_bytes, 5000) * 2);
      Payload memory = rank == 0 ? payload(0, 1, message, bytes) : Payload(bytes);
      if (rank == 0) {
        finish(transport, {transport.post_send(1, Channel::message, cut(memory, 3), ByteClass::payload)});
      } else {
        finish(transport, {transport.post_receive(0, Channel::message, cut(memory, 2))});
        ASSERT_TRUE(memory == payload(0, 1, message, bytes)) << "message " << message;
      }
    }
  });
}

TEST_P(Transports, ChannelsDoNotDisturbOneAnother) {
  run(2, [&](Transport& transport, int rank) {
    Payload a = payload(0, 1, 1, 40), b = payload(0, 1, 2, 40);
    const auto post = [&](Channel channel, Payload& memory) {
      return rank == 0 ? transport.post_send(1, channel, cut(memory, 1), ByteClass::payload)
                       : transport.post_receive(0, channel, cut(memory, 1));
    };
    if (rank == 1) a.assign(40, 0), b.assign(40, 0);
    // The sides use the channels in opposite order.
    const Channel first = rank == 0 ? Channel::collective : Channel::message;
    const Channel second = rank == 0 ? Channel::message : Channel::collective;
    finish(transport, {post(first, first == Channel::collective ? a : b)});
    finish(transport, {post(second, second == Channel::collective ? a : b)});
    EXPECT_TRUE(a == payload(0, 1, 1, 40) && b == payload(0, 1, 2, 40));
  });
}

TEST_P(Transports, TouchesNothingOutsideTheMessage) {
  run(2, [&](Transport& transport, int rank) {
    Payload memory(300, rank == 0 ? 1 : 9);
    const Extent middle{reinterpret_cast<std::byte*>(memory.data()) + 100, 100};
    if (rank == 0)
      finish(transport,
             {transport.post_send(1, Channel::collective, std::span(&middle, 1), ByteClass::payload)});
    else
      finish(transport, {transport.post_receive(0, Channel::collective, std::span(&middle, 1))});
    for (std::size_t i = 0; i < 300; ++i)
      EXPECT_EQ(memory[i], rank == 0 || (i >= 100 && i < 200) ? 1 : 9) << i;
  });
}

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const RanksAre kind : {RanksAre::processes, RanksAre::threads}) {
    for (const std::size_t bytes : {64u, 67u, 4096u, 131'072u, 1'000'003u})
      all.push_back({Over::shared_memory, bytes, kind});
    for (const std::size_t bytes : {64u, 8'192u, 131'072u, 1'000'003u})
      all.push_back({Over::ucx, bytes, kind});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Transports, ::testing::ValuesIn(setups()), [](const auto& info) {
  return fmt::format("{}_{}_{}", info.param.over == Over::ucx ? "ucx" : "shm", info.param.stream_bytes,
                     info.param.kind == RanksAre::processes ? "processes" : "threads");
});

// UCX takes signals for itself when it is loaded.
TEST(Ucx, LeavesTheProgramItsSignals) {
  if (ucx_version().empty()) GTEST_SKIP() << "built without UCX";
  run_processes(1, [](int) {
    const auto handler_of = [](int signal) {
      struct sigaction action {};
      EXPECT_EQ(::sigaction(signal, nullptr, &action), 0);
      return action.sa_handler;
    };
    void (*const own)(int) = [](int) {};
    ::signal(SIGTERM, own);
    ::signal(SIGSEGV, own);
    ::signal(SIGHUP, SIG_DFL);
    ::signal(SIGFPE, SIG_DFL);
    const auto network = make_ucx_network(0, 1, "");
    EXPECT_EQ(handler_of(SIGTERM), own);
    EXPECT_EQ(handler_of(SIGSEGV), own);
    EXPECT_EQ(handler_of(SIGHUP), SIG_DFL);
    EXPECT_EQ(handler_of(SIGFPE), SIG_DFL);
  });
}

TEST(Ucx, IsRefusedWhereItIsOlderThanItsHeaders) {
  if (ucx_version().empty()) GTEST_SKIP() << "built without UCX";
  run_processes(1, [](int) {
    ASSERT_NE(::dlopen(OLD_UCX, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();  // found by its SONAME
    const std::string message = error_message([] { make_ucx_network(0, 1, ""); });
    EXPECT_NE(message.find("is version 1.9.4"), std::string::npos) << message;
    EXPECT_NE(message.find("built with " + ucx_version()), std::string::npos) << message;
  });
}

TEST(Ucx, IsRefusedToAForkedChildOfItsUser) {
  if (ucx_version().empty()) GTEST_SKIP() << "built without UCX";
  run_processes(1, [](int) {
    const auto network = make_ucx_network(0, 1, "");
    const pid_t child = ::fork();
    if (child == 0) {
      for (int attempt = 0; attempt < 2; ++attempt)
        if (error_message([] { make_ucx_network(0, 1, ""); }).find("was forked from one") ==
            std::string::npos)
          ::_exit(1);
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
}  // namespace rondo::test
