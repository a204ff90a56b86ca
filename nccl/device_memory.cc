// What a communicator holds of GPU memory (since NCCL 2.30): nothing, so there is nothing to give up.
#include <fmt/format.h>

#include "nccl/communicators.h"

using namespace rondo::nccl;

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  return at_the_edge("ncclCommSuspend", [&] {
    find(comm);
    if (flags != NCCL_SUSPEND_MEM) refuse(fmt::format("flags {:#x}: expected NCCL_SUSPEND_MEM", flags));
  });
}

ncclResult_t ncclCommResume(ncclComm_t comm) {
  return at_the_edge("ncclCommResume", [&] { find(comm); });
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return at_the_edge("ncclCommMemStats", [&] {
    need("value", value);
    find(comm);
    const int number = stat;
    if (number < ncclStatGpuMemSuspend || number > ncclStatGpuMemTotal)
      refuse(fmt::format("stat {}: expected {} to {}", number, static_cast<int>(ncclStatGpuMemSuspend),
                         static_cast<int>(ncclStatGpuMemTotal)));
    *value = 0;
  });
}

RONDO_NCCL_TWIN(ncclCommSuspend);
RONDO_NCCL_TWIN(ncclCommResume);
RONDO_NCCL_TWIN(ncclCommMemStats);
