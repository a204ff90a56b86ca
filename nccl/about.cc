// Version, ids and errors.
#include <iterator>

#include "nccl/types.h"

using namespace rondo::nccl;

// What programs ask for is which functions and structs are there: those of this nccl.h.
ncclResult_t ncclGetVersion(int* version) {
  return at_the_edge("ncclGetVersion", [&] {
    need("version", version);
    *version = NCCL_VERSION_CODE;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return at_the_edge("ncclGetUniqueId", [&] {
    need("uniqueId", uniqueId);
    *uniqueId = new_id();
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* texts[] = {
      "no error",
      "a CUDA call failed",
      "a call to the operating system failed",
      "a fault inside Rondo",
      "an argument is invalid",
      "calls do not fit together, or Rondo does not offer this",
      "a peer has died or left, or the communicator has failed before",
      "not done yet",
      "a deadline passed",
  };
  static_assert(ncclInProgress == 7 && ncclNumResults <= std::size(texts));
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error().c_str(); }

// nccl.h calls this deprecated, and so would the compiler here.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// Rondo's messages are set by RONDO_DEBUG, when a communicator is made.
void ncclResetDebugInit() {}

RONDO_NCCL_TWIN(ncclGetVersion);
RONDO_NCCL_TWIN(ncclGetUniqueId);
RONDO_NCCL_TWIN(ncclGetErrorString);
RONDO_NCCL_TWIN(ncclGetLastError);
RONDO_NCCL_TWIN(ncclResetDebugInit);
