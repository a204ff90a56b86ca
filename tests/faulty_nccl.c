/* Libraries that perf programs are to refuse, or to survive, in the place of NCCL. OLD_NCCL: one of 2018.
 * Else one whose communicators never come to be: rank 0 is refused, the others wait for it for ever. */
#include <stddef.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

#ifdef OLD_NCCL
SHOWN int ncclGetVersion(int* version) {
  *version = 2304;
  return 0;
}
#else
SHOWN int ncclGetVersion(int* version) {
  *version = 22703;
  return 0;
}

typedef struct {
  char bytes[128];
} Id;
SHOWN int ncclGetUniqueId(Id* id) {
  id->bytes[0] = 1;
  return 0;
}
SHOWN int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  (void)ranks, (void)id;
  *comm = NULL;
  while (rank != 0) pause();
  return 1;
}
SHOWN const char* ncclGetErrorString(int result) { return result == 1 ? "out of order" : "?"; }
SHOWN const char* ncclGetLastError(const void* comm) { return comm == NULL ? "as the test wants it" : "?"; }

#define NEVER_CALLED(name) \
  SHOWN int name(void) { return 3; }
NEVER_CALLED(ncclCommDestroy)
NEVER_CALLED(ncclCommAbort)
NEVER_CALLED(ncclCommGetAsyncError)
NEVER_CALLED(ncclRedOpCreatePreMulSum)
NEVER_CALLED(ncclRedOpDestroy)
NEVER_CALLED(ncclGroupStart)
NEVER_CALLED(ncclGroupEnd)
NEVER_CALLED(ncclAllReduce)
NEVER_CALLED(ncclAllGather)
NEVER_CALLED(ncclReduceScatter)
NEVER_CALLED(ncclBroadcast)
NEVER_CALLED(ncclReduce)
NEVER_CALLED(ncclSend)
NEVER_CALLED(ncclRecv)
#endif
