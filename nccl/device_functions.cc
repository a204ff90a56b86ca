// The host functions of nccl_device.h: what kernels need is refused, teams are plain arithmetic.
#include "nccl/communicators.h"
#include "nccl/device_header.h"

namespace rondo::nccl {
namespace {

// A number of `comm`, or 0 and an error for ncclGetLastError: these functions have no result code.
template <typename Value, typename Make>
Value value_of(const char* function, ncclComm_t comm, Make make) {
  Value value{};
  at_the_edge(function, [&] { value = make(find(comm)); });
  return value;
}

}  // namespace
}  // namespace rondo::nccl

using namespace rondo::nccl;

ncclResult_t ncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements_t*, ncclDevComm_t*) {
  return no_kernels("ncclDevCommCreate");
}

ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm_t*) { return no_kernels("ncclDevCommDestroy"); }

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*,
                                             ncclDevResourceRequirements_t*) {
  return no_kernels("ncclLsaBarrierCreateRequirement");
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*,
                                             ncclDevResourceRequirements_t*) {
  return no_kernels("ncclGinBarrierCreateRequirement");
}

ncclResult_t ncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*) {
  return no_kernels("ncclLLA2ACreateRequirement");
}

int ncclLLA2ACalcSlots(int, int) {
  no_kernels("ncclLLA2ACalcSlots");
  return 0;
}

ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  return value_of<ncclTeam_t>("ncclTeamWorld", comm, [](const Communicator& one) {
    return ncclTeam_t{one.size, one.rank, 1};
  });
}

// The ranks whose memory a kernel may address: no rank's but one's own.
ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  return value_of<ncclTeam_t>("ncclTeamLsa", comm, [](const Communicator&) { return ncclTeam_t{1, 0, 1}; });
}

// One rank of each of those teams, hence all ranks.
ncclTeam_t ncclTeamRail(ncclComm_t comm) {
  return value_of<ncclTeam_t>("ncclTeamRail", comm, [](const Communicator& one) {
    return ncclTeam_t{one.size, one.rank, 1};
  });
}

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return value_of<int>("ncclTeamRankToWorld", comm,
                       [&](const Communicator& one) { return one.rank + (rank - team.rank) * team.stride; });
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return value_of<int>("ncclTeamRankToLsa", comm,
                       [&](const Communicator&) { return (rank - team.rank) * team.stride; });
}
