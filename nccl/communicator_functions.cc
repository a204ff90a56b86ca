// Making and ending communicators.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "nccl/communicators.h"
#include "nccl/config.h"
#include "nccl/cuda_driver.h"
#include "nccl/starts.h"

namespace rondo::nccl {
namespace {

void init_rank(const char* function, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
               const ncclConfig_t* config) {
  need("comm", comm);
  *comm = nullptr;
  start(function, nullptr,
        [comm, nranks, id = to_rondo(id), rank, name = name_from(config), device = device_of_this_thread()] {
          *comm = make_communicator(nranks, id, rank, name, device);
        });
}

void init_all(ncclComm_t* comms, int ndev, const int* devlist) {
  need("comm", comms);
  if (ndev < 1) refuse(fmt::format("ndev {}: expected at least 1", ndev));
  std::vector<rondoComm_t> made(static_cast<std::size_t>(ndev));
  rondoUniqueId heirs_id;
  check(rondoGetUniqueId(&heirs_id));
  check(rondoCommInitAll(made.data(), ndev, devlist));
  const bool has_devices = device_of_this_thread() != cudaCpuDeviceId;
  for (int rank = 0; rank < ndev; ++rank) {
    const int device = devlist != nullptr ? devlist[rank] : has_devices ? rank : cudaCpuDeviceId;
    comms[rank] = adopt(made[static_cast<std::size_t>(rank)], "", device, {heirs_id});
  }
}

void split(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, const ncclConfig_t* config) {
  need("newcomm", newcomm);
  *newcomm = nullptr;
  const Communicator parent = find(comm);
  const std::string wish = name_from(config);
  start("ncclCommSplit", comm, [=, name = wish.empty() ? parent.name : wish] {
    rondoConfig_t options = RONDO_CONFIG_INITIALIZER;
    if (!name.empty()) options.name = name.c_str();
    rondoComm_t made = nullptr;
    check(rondoCommSplit(to_rondo(comm), color, key, &made, &options));
    if (made != nullptr) *newcomm = adopt(made, name, parent.device);
  });
}

// Throws where the list is not one of other ranks, each once.
std::set<int> ranks_to_exclude(const Communicator& parent, const int* list, int count) {
  if (count < 0) refuse(fmt::format("excludeRanksCount {}: expected 0 or more", count));
  if (count > 0) need("excludeRanksList", list);
  std::set<int> excluded;
  for (const int rank : std::span(list, static_cast<std::size_t>(count))) {
    if (rank < 0 || rank >= parent.size)
      refuse(fmt::format("excludeRanksList has {}: expected 0 to {}", rank, parent.size - 1));
    if (rank == parent.rank)
      refuse(fmt::format("excludeRanksList has {}, this rank: only those that stay call", rank));
    if (!excluded.insert(rank).second) refuse(fmt::format("excludeRanksList has {} twice", rank));
  }
  return excluded;
}

const rondoUniqueId& heirs_id(const Communicator& parent, const std::set<int>& excluded) {
  if (parent.heirs_ids.size() == 1) return parent.heirs_ids.front();
  int first = 0;
  while (excluded.count(first) != 0) ++first;
  return parent.heirs_ids[static_cast<std::size_t>(first)];
}

void shrink(ncclComm_t comm, const int* list, int count, ncclComm_t* newcomm, const ncclConfig_t* config,
            int flags) {
  need("newcomm", newcomm);
  *newcomm = nullptr;
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    refuse(fmt::format("shrinkFlags {:#x}: expected NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT", flags));
  const Communicator parent = find(comm);
  const std::set<int> excluded = ranks_to_exclude(parent, list, count);
  const std::string wish = name_from(config);
  if (flags == NCCL_SHRINK_ABORT) end(comm);
  const auto below = std::distance(excluded.begin(), excluded.lower_bound(parent.rank));
  start("ncclCommShrink", comm,
        [=, size = parent.size - count, rank = parent.rank - static_cast<int>(below),
         id = heirs_id(parent, excluded), device = parent.device, name = wish.empty() ? parent.name : wish] {
          *newcomm = make_communicator(size, id, rank, name, device);
        });
}

// A null communicator is what a rank without a colour has.
void let_go(ncclComm_t comm, rondoResult_t (*how)(rondoComm_t)) {
  if (comm == nullptr) return;
  if (!forget(comm)) check(how(to_rondo(comm)));
}

}  // namespace
}  // namespace rondo::nccl

using namespace rondo::nccl;

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return at_the_edge("ncclCommInitRank",
                     [&] { init_rank("ncclCommInitRank", comm, nranks, commId, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return at_the_edge("ncclCommInitRankConfig",
                     [&] { init_rank("ncclCommInitRankConfig", comm, nranks, commId, rank, config); });
}

// More ids let NCCL start faster. All ranks have the same ones, so the first is enough.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  return at_the_edge("ncclCommInitRankScalable", [&] {
    if (nId < 1 || nId > nranks) refuse(fmt::format("nId {}: expected 1 to nranks ({})", nId, nranks));
    need("commIds", commIds);
    init_rank("ncclCommInitRankScalable", newcomm, nranks, commIds[0], myrank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return at_the_edge("ncclCommInitAll", [&] { init_all(comm, ndev, devlist); });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return at_the_edge("ncclCommSplit", [&] { split(comm, color, key, newcomm, config); });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return at_the_edge("ncclCommShrink", [&] {
    shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t, int) {
  return at_the_edge("ncclCommRevoke",
                     [] { not_offered("use ncclCommShrink with NCCL_SHRINK_ABORT, or ncclCommAbort"); });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return at_the_edge("ncclCommFinalize", [&] {
    if (comm != nullptr) check(rondoCommFinalize(to_rondo(comm)));
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return at_the_edge("ncclCommDestroy", [&] { let_go(comm, rondoCommDestroy); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return at_the_edge("ncclCommAbort", [&] { let_go(comm, rondoCommAbort); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return at_the_edge("ncclCommGetAsyncError", [&] {
    need("asyncError", asyncError);
    rondoResult_t error = rondoSuccess;
    check(rondoCommGetAsyncError(to_rondo(comm), &error));
    *asyncError = result_from(error);
    if (error != rondoSuccess) remember("ncclCommGetAsyncError", rondo_error());
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return at_the_edge("ncclCommCount", [&] { check(rondoCommCount(to_rondo(comm), count)); });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return at_the_edge("ncclCommUserRank", [&] { check(rondoCommUserRank(to_rondo(comm), rank)); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return at_the_edge("ncclCommCuDevice", [&] {
    need("device", device);
    *device = find(comm).device;
  });
}

RONDO_NCCL_TWIN(ncclCommInitRank);
RONDO_NCCL_TWIN(ncclCommInitRankConfig);
RONDO_NCCL_TWIN(ncclCommInitRankScalable);
RONDO_NCCL_TWIN(ncclCommInitAll);
RONDO_NCCL_TWIN(ncclCommSplit);
RONDO_NCCL_TWIN(ncclCommShrink);
RONDO_NCCL_TWIN(ncclCommRevoke);
RONDO_NCCL_TWIN(ncclCommFinalize);
RONDO_NCCL_TWIN(ncclCommDestroy);
RONDO_NCCL_TWIN(ncclCommAbort);
RONDO_NCCL_TWIN(ncclCommGetAsyncError);
RONDO_NCCL_TWIN(ncclCommCount);
RONDO_NCCL_TWIN(ncclCommUserRank);
RONDO_NCCL_TWIN(ncclCommCuDevice);
