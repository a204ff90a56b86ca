// Writing to a peer's window, which asks nothing of the peer (since NCCL 2.30). Rondo has no such calls.
#include "nccl/edge.h"

namespace rondo::nccl {
namespace {

ncclResult_t no_one_sided(const char* function) {
  return at_the_edge(function, [] { not_offered("one-sided calls; use ncclSend and ncclRecv"); });
}

}  // namespace
}  // namespace rondo::nccl

using namespace rondo::nccl;

ncclResult_t ncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned,
                           ncclComm_t, cudaStream_t) {
  return no_one_sided("ncclPutSignal");
}

ncclResult_t ncclSignal(int, int, int, unsigned, ncclComm_t, cudaStream_t) {
  return no_one_sided("ncclSignal");
}

ncclResult_t ncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t) {
  return no_one_sided("ncclWaitSignal");
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t, ncclWindow_t, void**) { return no_one_sided("ncclWinGetUserPtr"); }

RONDO_NCCL_TWIN(ncclPutSignal);
RONDO_NCCL_TWIN(ncclSignal);
RONDO_NCCL_TWIN(ncclWaitSignal);
RONDO_NCCL_TWIN(ncclWinGetUserPtr);
