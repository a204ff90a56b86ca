#include "src/nudge.h"

#include <sched.h>

namespace rondo {
namespace {

// The CPU at place `place` of the set.
int cpu_at(const cpu_set_t& cpus, int place) {
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &cpus) && place-- == 0) return cpu;
  return -1;
}

}  // namespace

int move_to_cpu_in_turn(int turn) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  const int count = CPU_COUNT(&allowed);
  if (count < 2) return -1;
  const int cpu = cpu_at(allowed, turn % count);
  if (cpu == ::sched_getcpu()) return -1;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return -1;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  return cpu;
}

}  // namespace rondo
