// The floor of a small call: two processes, each on a CPU of its own, write so many cache lines for the
// other, set a flag, wait for the other's and read its lines; no call, no check, no ledger. Places change
// hands each time, as the library's do, or stay (`fixed`).
//   line_trip LINES...
// prints for each number of lines: lines, median nanoseconds of the slower process with places that change
// hands, and with fixed ones.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t line_bytes = 64, most_lines = 4096;
constexpr int warmup = 100, trips = 10'000;

struct alignas(line_bytes) Flag {
  std::atomic<std::int64_t> number;
};

struct Place {
  Flag arrived;
  std::byte lines[most_lines * line_bytes];
};

// Zeros, which all processes see.
struct World {
  Flag starts[2];
  Place places[2];
  double nanoseconds[2][trips];
};

World& make_world() {
  void* memory = ::mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("line_trip: mmap");
    std::exit(1);
  }
  return *static_cast<World*>(memory);
}

void wait_for(const Flag& flag, std::int64_t number) {
  while (flag.number.load(std::memory_order_acquire) != number) {
  }
}

void run(World& world, int rank, std::size_t lines, bool fixed) {
  const int peer = 1 - rank;
  std::vector<std::byte> from(lines * line_bytes, std::byte{1}), to(lines * line_bytes);
  for (std::int64_t trip = 1; trip <= warmup + trips; ++trip) {
    const int turn = fixed ? 0 : static_cast<int>(trip % 2);
    Place& mine = world.places[rank ^ turn];
    const Place& other = world.places[peer ^ turn];
    world.starts[rank].number.store(trip, std::memory_order_release);
    wait_for(world.starts[peer], trip);
    const auto start = Clock::now();
    std::memcpy(mine.lines, from.data(), from.size());
    mine.arrived.number.store(trip, std::memory_order_release);
    wait_for(other.arrived, trip);
    std::memcpy(to.data(), other.lines, to.size());
    if (trip > warmup)
      world.nanoseconds[rank][trip - warmup - 1] =
          std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }
}

void keep_on_cpu(int rank) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(rank), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

// Median nanoseconds; negative if a process failed.
double measure(std::size_t lines, bool fixed) {
  World& world = make_world();
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) return -1;
    if (child > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_on_cpu(rank);
    run(world, rank, lines, fixed);
    ::_exit(0);
  }
  bool good = true;
  for (int status = 0; ::wait(&status) > 0;) good = good && status == 0;
  std::vector<double> slower(trips);
  for (std::size_t i = 0; i < trips; ++i)
    slower[i] = std::max(world.nanoseconds[0][i], world.nanoseconds[1][i]);
  ::munmap(&world, sizeof world);
  std::nth_element(slower.begin(), slower.begin() + trips / 2, slower.end());
  return good ? slower[trips / 2] : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    std::fprintf(stderr, "line_trip: needs two CPUs\n");
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    const long lines = std::strtol(argv[i], nullptr, 10);
    if (lines < 1 || lines > static_cast<long>(most_lines)) {
      std::fprintf(stderr, "line_trip: LINES %s: expected a number from 1 to %zu\n", argv[i], most_lines);
      return 2;
    }
    const auto count = static_cast<std::size_t>(lines);
    std::printf("%ld %.0f %.0f\n", lines, measure(count, false), measure(count, true));
  }
  return 0;
}
