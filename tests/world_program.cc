// A small program as a user of the C interface writes it: joins the world that `rondo run` made, adds up the
// ranks, and says what came out. Tests run it. With an argument, the rank of that number dies before the
// collective.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/rondo/rondo.h"

namespace {

int check(rondoResult_t result) {
  if (result == rondoSuccess) return 0;
  std::fprintf(stderr, "%s: %s\n", rondoGetErrorString(result), rondoGetLastError(nullptr));
  return 1;
}

int run(int dying_rank) {
  rondoComm_t comm = nullptr;
  int rank = -1, size = 0;
  if (check(rondoCommInitEnv(&comm, nullptr))) return 1;
  if (check(rondoCommUserRank(comm, &rank)) || check(rondoCommCount(comm, &size))) return 1;
  if (rank == dying_rank) ::kill(::getpid(), SIGKILL);
  float sum = static_cast<float>(rank + 1);
  if (check(rondoAllReduce(&sum, &sum, 1, rondoFloat32, rondoSum, comm, nullptr))) return 1;
  std::printf("rank %d of %d: sum %g\n", rank, size, static_cast<double>(sum));
  return check(rondoCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) { return run(argc > 1 ? std::atoi(argv[1]) : -1); }
