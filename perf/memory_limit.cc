// What the memory allows: as many processes as ranks do just the loads and stores that the best algorithm
// needs, on buffers that all of them map, and never wait for one another inside a call. f32, sum.
//   memory_limit COLLECTIVE RANKS dirty|clean BYTES:ITERATIONS...
// prints for each size: bytes, median microseconds of the slowest process, the kind of stores that was best.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "perf/limit_loops.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

constexpr std::size_t cache_line = 64;

enum class Kind { all_reduce, all_gather, reduce_scatter };

struct Size {
  std::size_t bytes;
  int iterations;
};

struct Task {
  Kind kind;
  int ranks;
  bool dirty;
  std::vector<Size> sizes;
};

// Zeros that all children see.
template <typename T>
T* shared(std::size_t count) {
  void* memory =
      ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("memory_limit: mmap");
    std::exit(1);
  }
  return static_cast<T*>(memory);
}

// Lets all processes start a call together. Yields early where they outnumber the CPUs.
class Gate {
 public:
  Gate(std::atomic<long>* arrived, int ranks)
      : arrived_(arrived), ranks_(ranks), spins_(ranks > ::sysconf(_SC_NPROCESSORS_ONLN) ? 0 : 10'000) {}
  void pass() {
    goal_ += ranks_;
    arrived_->fetch_add(1);
    for (int spin = 0; arrived_->load(std::memory_order_acquire) < goal_; ++spin)
      if (spin >= spins_) ::sched_yield();
  }

 private:
  std::atomic<long>* arrived_;
  int ranks_, spins_;
  long goal_ = 0;
};

struct World {
  std::vector<float*> inputs, outputs;  // of all ranks
  double* seconds;                      // [rank][iteration]
  std::atomic<long>* arrived;
  std::size_t part;  // elements
};

// The part of a call's work that falls to one rank.
LimitLoop loop_of(const Task& task, const World& world, int rank) {
  const std::size_t begin = world.part * static_cast<std::size_t>(rank);
  LimitLoop loop;
  loop.count = world.part;
  switch (task.kind) {
    case Kind::all_reduce:
      for (float* input : world.inputs) loop.sources.push_back(input + begin);
      for (float* output : world.outputs) loop.targets.push_back(output + begin);
      break;
    case Kind::all_gather:
      loop.sources.push_back(world.inputs[static_cast<std::size_t>(rank)]);
      for (float* output : world.outputs) loop.targets.push_back(output + begin);
      break;
    case Kind::reduce_scatter:
      for (float* input : world.inputs) loop.sources.push_back(input + begin);
      loop.targets.push_back(world.outputs[static_cast<std::size_t>(rank)]);
      break;
  }
  return loop;
}

// Not zeros, which some CPUs move faster than anything else (docs/performance.md).
void fill(float* buffer, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(i % 1021 + 1);
}

void rewrite(float* input, std::size_t count) {
  auto* words = const_cast<volatile float*>(input);
  for (std::size_t i = 0; i < count; i += cache_line / sizeof(float)) words[i] = words[i];
}

void run_rank(const Task& task, const World& world, int rank, int iterations, bool streaming) {
  const LimitLoop loop = loop_of(task, world, rank);
  const std::size_t own =
      task.kind == Kind::all_gather ? world.part : world.part * static_cast<std::size_t>(task.ranks);
  Gate gate(world.arrived, task.ranks);
  constexpr int warmup = 3;
  for (int i = -warmup; i < iterations; ++i) {
    if (task.dirty) rewrite(world.inputs[static_cast<std::size_t>(rank)], own);
    gate.pass();
    const auto start = Clock::now();
    run_limit_loop(loop, streaming);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i >= 0) world.seconds[rank * iterations + i] = seconds;
    gate.pass();  // so that nobody rewrites what another still reads
  }
}

void keep_on_cpu(int rank) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(rank % ::sysconf(_SC_NPROCESSORS_ONLN)), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

bool run_all(const Task& task, const World& world, int iterations, bool streaming) {
  *world.arrived = 0;
  for (int rank = 0; rank < task.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return false;
    if (pid > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_on_cpu(rank);
    run_rank(task, world, rank, iterations, streaming);
    ::_exit(0);
  }
  bool good = true;
  for (int status = 0; ::wait(&status) > 0;) good = good && status == 0;
  return good;
}

// Of the slowest rank, over the iterations.
double median(const Task& task, const World& world, int iterations) {
  std::vector<double> slowest(static_cast<std::size_t>(iterations), 0.0);
  for (int rank = 0; rank < task.ranks; ++rank)
    for (int i = 0; i < iterations; ++i) {
      double& one = slowest[static_cast<std::size_t>(i)];
      one = std::max(one, world.seconds[rank * iterations + i]);
    }
  std::sort(slowest.begin(), slowest.end());
  return slowest[slowest.size() / 2];
}

bool measure(const Task& task, const Size& size) {
  const auto ranks = static_cast<std::size_t>(task.ranks);
  World world;
  // Whole blocks, so that the loops have no tail.
  world.part = (size.bytes / sizeof(float) / ranks + limit_block - 1) / limit_block * limit_block;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (auto* buffers : {&world.inputs, &world.outputs}) {
      buffers->push_back(shared<float>(world.part * ranks));
      fill(buffers->back(), world.part * ranks);
    }
  }
  world.seconds = shared<double>(ranks * static_cast<std::size_t>(size.iterations));
  world.arrived = shared<std::atomic<long>>(1);
  double best = 0;
  const char* stores = "";
  for (const bool streaming : {false, true}) {
    if (!run_all(task, world, size.iterations, streaming)) return false;
    const double time = median(task, world, size.iterations);
    if (best != 0 && time >= best) continue;
    best = time;
    stores = streaming ? "non-temporal" : "ordinary";
  }
  std::printf("%zu %.3f %s\n", size.bytes, best * 1e6, stores);
  std::fflush(stdout);
  for (auto* buffers : {&world.inputs, &world.outputs})
    for (float* buffer : *buffers) ::munmap(buffer, world.part * ranks * sizeof(float));
  return true;
}

bool parse(int argc, char** argv, Task& task) {
  if (argc < 5) return false;
  const std::string kind = argv[1], inputs = argv[3];
  if (kind == "all_reduce")
    task.kind = Kind::all_reduce;
  else if (kind == "all_gather")
    task.kind = Kind::all_gather;
  else if (kind == "reduce_scatter")
    task.kind = Kind::reduce_scatter;
  else
    return false;
  task.ranks = std::atoi(argv[2]);
  task.dirty = inputs == "dirty";
  for (int i = 4; i < argc; ++i) {
    Size size{};
    if (std::sscanf(argv[i], "%zu:%d", &size.bytes, &size.iterations) != 2 || size.iterations < 1)
      return false;
    task.sizes.push_back(size);
  }
  return task.ranks >= 1 && task.ranks <= 512 && (task.dirty || inputs == "clean");
}

}  // namespace

int main(int argc, char** argv) {
  Task task{};
  if (!parse(argc, argv, task)) {
    std::fprintf(
        stderr,
        "usage: memory_limit all_reduce|all_gather|reduce_scatter RANKS dirty|clean BYTES:ITERATIONS...\n");
    return 2;
  }
  for (const Size& size : task.sizes)
    if (!measure(task, size)) return 1;
  return 0;
}
