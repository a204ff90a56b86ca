// NCCL's parameters (since NCCL 2.30), none of which mean anything to Rondo.
#include "nccl/edge.h"

namespace rondo::nccl {
namespace {

ncclResult_t no_parameters(const char* function) {
  return at_the_edge(function, [] { not_offered("NCCL's parameters; `rondo info` tells Rondo's settings"); });
}

}  // namespace
}  // namespace rondo::nccl

using namespace rondo::nccl;

ncclResult_t ncclParamBind(ncclParamHandle_t*, const char*) { return no_parameters("ncclParamBind"); }
ncclResult_t ncclParamGetI8(ncclParamHandle_t, int8_t*) { return no_parameters("ncclParamGetI8"); }
ncclResult_t ncclParamGetI16(ncclParamHandle_t, int16_t*) { return no_parameters("ncclParamGetI16"); }
ncclResult_t ncclParamGetI32(ncclParamHandle_t, int32_t*) { return no_parameters("ncclParamGetI32"); }
ncclResult_t ncclParamGetI64(ncclParamHandle_t, int64_t*) { return no_parameters("ncclParamGetI64"); }
ncclResult_t ncclParamGetU8(ncclParamHandle_t, uint8_t*) { return no_parameters("ncclParamGetU8"); }
ncclResult_t ncclParamGetU16(ncclParamHandle_t, uint16_t*) { return no_parameters("ncclParamGetU16"); }
ncclResult_t ncclParamGetU32(ncclParamHandle_t, uint32_t*) { return no_parameters("ncclParamGetU32"); }
ncclResult_t ncclParamGetU64(ncclParamHandle_t, uint64_t*) { return no_parameters("ncclParamGetU64"); }
ncclResult_t ncclParamGetStr(ncclParamHandle_t, const char**) { return no_parameters("ncclParamGetStr"); }
ncclResult_t ncclParamGet(ncclParamHandle_t, void*, int, int*) { return no_parameters("ncclParamGet"); }
ncclResult_t ncclParamGetParameter(const char*, const char**, int*) {
  return no_parameters("ncclParamGetParameter");
}
ncclResult_t ncclParamGetAllParameterKeys(const char***, int*) {
  return no_parameters("ncclParamGetAllParameterKeys");
}
void ncclParamDumpAll() { no_parameters("ncclParamDumpAll"); }

RONDO_NCCL_TWIN(ncclParamBind);
RONDO_NCCL_TWIN(ncclParamGetI8);
RONDO_NCCL_TWIN(ncclParamGetI16);
RONDO_NCCL_TWIN(ncclParamGetI32);
RONDO_NCCL_TWIN(ncclParamGetI64);
RONDO_NCCL_TWIN(ncclParamGetU8);
RONDO_NCCL_TWIN(ncclParamGetU16);
RONDO_NCCL_TWIN(ncclParamGetU32);
RONDO_NCCL_TWIN(ncclParamGetU64);
RONDO_NCCL_TWIN(ncclParamGetStr);
RONDO_NCCL_TWIN(ncclParamGet);
RONDO_NCCL_TWIN(ncclParamGetParameter);
RONDO_NCCL_TWIN(ncclParamGetAllParameterKeys);
RONDO_NCCL_TWIN(ncclParamDumpAll);
