// Communicators that grow (since NCCL 2.30).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "nccl/communicators.h"
#include "nccl/config.h"
#include "nccl/cuda_driver.h"
#include "nccl/starts.h"

namespace rondo::nccl {
namespace {

// What each rank of the parent knows of where to meet the new ones.
struct Card {
  int has_id;
  rondoUniqueId id;
};

// One rank has the id; nobody knows which.
rondoUniqueId find_id(ncclComm_t parent, int size, const Card& mine) {
  const rondoComm_t comm = to_rondo(parent);
  std::vector<Card> cards(static_cast<std::size_t>(size));
  check(rondoLedgerScopeBegin(comm, "grow"));
  const rondoResult_t gathered = rondoAllGather(&mine, cards.data(), sizeof mine, rondoUint8, comm, nullptr);
  check(rondoLedgerScopeEnd(comm));  // also when ranks have made different calls, which leaves comm whole
  check(gathered);
  const auto has_id = [](const Card& card) { return card.has_id != 0; };
  const auto roots = std::count_if(cards.begin(), cards.end(), has_id);
  if (roots != 1)
    throw Failure{ncclInvalidUsage, fmt::format("{} ranks of comm passed a uniqueId: expected 1", roots)};
  return std::find_if(cards.begin(), cards.end(), has_id)->id;
}

void grow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm,
          const ncclConfig_t* config) {
  need("newcomm", newcomm);
  *newcomm = nullptr;
  const std::string wish = name_from(config);
  const Card card{id != nullptr, id != nullptr ? to_rondo(*id) : rondoUniqueId{}};
  if (comm == nullptr) {
    need("uniqueId", id);
    return start("ncclCommGrow", nullptr, [=, device = device_of_this_thread()] {
      *newcomm = make_communicator(ranks, card.id, rank, wish, device);
    });
  }
  const Communicator parent = find(comm);
  if (ranks <= parent.size) refuse(fmt::format("nRanks {}: expected more than {}", ranks, parent.size));
  if (rank != -1) refuse(fmt::format("rank {}: expected -1, as ranks of comm keep theirs", rank));
  start("ncclCommGrow", comm, [=, name = wish.empty() ? parent.name : wish] {
    const rondoUniqueId place = find_id(comm, parent.size, card);
    *newcomm = make_communicator(ranks, place, parent.rank, name, parent.device);
  });
}

}  // namespace
}  // namespace rondo::nccl

using namespace rondo::nccl;

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return at_the_edge("ncclCommGetUniqueId", [&] {
    need("uniqueId", uniqueId);
    find(comm);
    *uniqueId = new_id();
  });
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config) {
  return at_the_edge("ncclCommGrow", [&] { grow(comm, nRanks, uniqueId, rank, newcomm, config); });
}

RONDO_NCCL_TWIN(ncclCommGetUniqueId);
RONDO_NCCL_TWIN(ncclCommGrow);
