#include "nccl/communicators.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "nccl/cuda_driver.h"

namespace rondo::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, Communicator> all;
};

// Never destroyed: a program's static objects may still destroy their communicators.
Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

// Rank 0's, if it is good on all hosts. Else every rank's, each good on its own host: heirs that are all on
// one can meet there.
std::vector<rondoUniqueId> agree_on_heirs_ids(rondoComm_t comm) {
  int size = 0;
  check(rondoCommCount(comm, &size));
  rondoUniqueId own{};
  check(rondoGetUniqueId(&own));
  std::vector<rondoUniqueId> ids(static_cast<std::size_t>(size));
  check(rondoAllGather(&own, ids.data(), sizeof own, rondoUint8, comm, nullptr));
  std::uint8_t good = rondoCheckUniqueId(ids[0]) == rondoSuccess;
  check(rondoAllReduce(&good, &good, 1, rondoUint8, rondoMin, comm, nullptr));
  if (good != 0) ids.resize(1);
  check(rondoLedgerReset(comm));  // the ledger is the program's
  return ids;
}

}  // namespace

int device_of_this_thread() { return current_cuda_device().value_or(cudaCpuDeviceId); }

ncclComm_t make_communicator(int size, const rondoUniqueId& id, int rank, const std::string& name,
                             int device) {
  rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
  if (!name.empty()) config.name = name.c_str();
  rondoComm_t made = nullptr;
  check(rondoCommInitRankConfig(&made, size, id, rank, &config));
  return adopt(made, name, device);
}

ncclComm_t adopt(rondoComm_t made, const std::string& name, int device) {
  try {
    return adopt(made, name, device, agree_on_heirs_ids(made));
  } catch (...) {
    rondoCommDestroy(made);
    throw;
  }
}

ncclComm_t adopt(rondoComm_t made, const std::string& name, int device,
                 std::vector<rondoUniqueId> heirs_ids) {
  Communicator communicator{0, 0, device, name, std::move(heirs_ids)};
  check(rondoCommUserRank(made, &communicator.rank));
  check(rondoCommCount(made, &communicator.size));
  const std::lock_guard lock(registry().mutex);
  registry().all.insert_or_assign(from_rondo(made), std::move(communicator));
  return from_rondo(made);
}

Communicator find(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().all.find(comm);
  if (found == registry().all.end())
    refuse(fmt::format("comm {}: expected one made by NCCL's functions and not destroyed",
                       static_cast<const void*>(comm)));
  return found->second;
}

void end(ncclComm_t comm) {
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().all.find(comm);
    if (found == registry().all.end() || found->second.ended) return;
    found->second.ended = true;
  }
  check(rondoCommAbort(to_rondo(comm)));
}

bool forget(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().all.find(comm);
  if (found == registry().all.end()) return false;
  const bool ended = found->second.ended;
  registry().all.erase(found);
  return ended;
}

}  // namespace rondo::nccl
