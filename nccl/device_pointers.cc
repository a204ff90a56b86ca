// What nccl_device.h has added in 2.30: properties and pointers for kernels of one's own.
#include "nccl/device_header.h"
#include "nccl/edge.h"

using namespace rondo::nccl;

ncclResult_t ncclCommQueryProperties(ncclComm_t, ncclCommProperties_t*) {
  return no_kernels("ncclCommQueryProperties");
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void**) {
  return no_kernels("ncclGetLsaMultimemDevicePointer");
}

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t, size_t, ncclMultimemHandle_t, void**) {
  return no_kernels("ncclGetMultimemDevicePointer");
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t, size_t, int, void**) {
  return no_kernels("ncclGetLsaDevicePointer");
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**) {
  return no_kernels("ncclGetPeerDevicePointer");
}
