// Shared memory with odd settings, and what it leaves behind, which is nothing.
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
