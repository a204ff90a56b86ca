// The conformance suite of transports, over shared memory: order, bounds, uneven sizes, both directions at
// once; and what shared memory leaves behind, which is nothing.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "src/calls.h"
#include "src/engine.h"
#include "src/transport.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

struct Setup {
  std::size_t stream_bytes;
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

class Shm : public ::testing::TestWithParam<Setup> {
 protected:
  // Runs `body` as each rank of `size`, each with its own end of one segment.
  void run(int size, const std::function<void(Transport&, int)>& body) {
    const std::size_t room = GetParam().stream_bytes;
    const Fd memory = Segment::create(size, {room, 0});
    const auto one = [&](int rank) {
      const auto transport = make_shm_transport(Segment::map(memory, size, {room, 0}), rank, size);
      body(*transport, rank);
    };
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

TEST_P(Shm, EveryPairBothWaysAtOnceInOrder) {
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

TEST_P(Shm, WrapsAroundManyTimesWithSizesThatDoNotDivide) {
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

TEST_P(Shm, ChannelsDoNotDisturbOneAnother) {
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

TEST_P(Shm, TouchesNothingOutsideTheMessage) {
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
  for (const RanksAre kind : {RanksAre::processes, RanksAre::threads})
    for (const std::size_t bytes : {64u, 67u, 4096u, 131'072u, 1'000'003u}) all.push_back({bytes, kind});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Rooms, Shm, ::testing::ValuesIn(setups()), [](const auto& info) {
  return fmt::format("{}_{}", info.param.stream_bytes,
                     info.param.kind == RanksAre::processes ? "processes" : "threads");
});

// ---- settings that make streams and slices odd ----

TEST(ShmSettings, CollectivesWorkWithTheSmallestAndOddestRooms) {
  for (const auto& [buffer, slice] :
       {std::pair<std::size_t, std::size_t>{64, 64}, {67, 72}, {1'000'003, 4096}, {64, 1 << 20}}) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct}) {
      CommunicatorOptions options = test_options(algorithm);
      options.settings.buffer_bytes = buffer;
      options.settings.slice_bytes = slice;
      run_ranks(
          3,
          [](Communicator& comm) {
            const Seat seat{comm.rank(), comm.size()};
            std::vector<double> send(3001), receive(3001);
            for (std::size_t i = 0; i < send.size(); ++i) send[i] = static_cast<double>(i) * (seat.rank + 1);
            comm.run(all_reduce_call(seat, send.data(), receive.data(), send.size(), DataType::f64, {}));
            for (std::size_t i = 0; i < send.size(); ++i)
              ASSERT_EQ(receive[i], 6.0 * static_cast<double>(i)) << i;
          },
          options);
    }
  }
}

// ---- what stays behind ----

std::vector<std::string> names_in_dev_shm() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Kilobytes of shared memory in use on this host.
long shared_kilobytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  long value = 0;
  while (file >> name >> value) {
    std::getline(file, unit);
    if (name == "Shmem:") return value;
  }
  return 0;
}

void loop_all_reduce(Communicator& comm, std::size_t count) {
  std::vector<float> data(count, 1);
  while (true)
    comm.run(all_reduce_call({comm.rank(), comm.size()}, data.data(), data.data(), count, DataType::f32,
                             {ReduceOp::max, 0}));
}

TEST(ShmLeavings, NothingAfterAllRanksAreKilledAtRandomMoments) {
  const auto names = names_in_dev_shm();
  std::mt19937 random(3);
  const long before = shared_kilobytes();
  for (int round = 0; round < 20; ++round) {
    const UniqueId id = UniqueId::make();
    std::vector<pid_t> children;
    for (int rank = 0; rank < 4; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          loop_all_reduce(*Communicator::create(id.meeting_place(), rank, 4, test_options()), 1 << 18);
        } catch (const Error&) {
        }
        ::_exit(0);
      }
      children.push_back(child);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    for (const pid_t child : children) ::kill(child, SIGKILL);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(names_in_dev_shm(), names);
  // 20 segments with all 12 streams in use would be 30 MB; others on this host use shared memory too.
  EXPECT_LT(shared_kilobytes() - before, 15'000);
  run_ranks(4, [](Communicator& comm) { comm.run(barrier_call()); });
}

TEST(ShmLeavings, NoNameWhileRanksRun) {
  const auto names = names_in_dev_shm();
  run_ranks(2, [&](Communicator& comm) {
    std::vector<float> data(100'000, 1);
    comm.run(all_reduce_call({comm.rank(), 2}, data.data(), data.data(), data.size(), DataType::f32, {}));
    EXPECT_EQ(names_in_dev_shm(), names);
    comm.run(barrier_call());
  });
}

// Mounts a /dev/shm of 64 KiB in a mount namespace of its own. What stood in the way, if anything.
std::string shrink_dev_shm() {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return fmt::format("unshare: {}", std::strerror(errno));
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fmt::format("making mounts private: {}", std::strerror(errno));
  if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0)
    return fmt::format("mounting a tmpfs: {}", std::strerror(errno));
  return "";
}

TEST(ShmLeavings, ATinyDevShmIsNoMatter) {
  const pid_t probe = ::fork();
  if (probe == 0) ::_exit(shrink_dev_shm().empty() ? 0 : 1);
  int status = 0;
  ::waitpid(probe, &status, 0);
  if (status != 0) GTEST_SKIP() << "no mount namespace to be had here";
  const UniqueId id = UniqueId::make();
  run_processes(8, [&](int rank) {
    ASSERT_EQ(shrink_dev_shm(), "");
    struct statvfs space {};
    ASSERT_EQ(::statvfs("/dev/shm", &space), 0);
    ASSERT_LE(space.f_blocks * space.f_frsize, 65'536u);
    const auto comm = Communicator::create(id.meeting_place(), rank, 8, test_options());
    std::vector<std::shared_ptr<Communicator>> more{comm};
    for (int i = 0; i < 3; ++i) more.push_back(comm->split(0, rank, test_options()));
    for (const auto& one : more) {
      std::vector<float> data(200'000, 1);
      one->run(all_reduce_call({one->rank(), 8}, data.data(), data.data(), data.size(), DataType::f32, {}));
      EXPECT_EQ(data.back(), 8);
    }
  });
}

TEST(ShmLimits, ASegmentOverTheFileSizeLimitIsAnErrorAndNoSignal) {
  run_processes(1, [](int) {
    const rlimit limit{1 << 20, 1 << 20};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    try {
      Segment::create(4, {1 << 20, 0});
      ADD_FAILURE() << "the segment was made";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("ulimit -f"), std::string::npos) << error.what();
    }
  });
}

TEST(ShmLimits, SegmentsCannotBeShrunkUnderARank) {
  const Fd memory = Segment::create(2, {4096, 0});
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
}

}  // namespace
}  // namespace rondo::test
