// What NCCL knows of a communicator and Rondo does not.
#pragma once

#include <string>
#include <vector>

#include "nccl/types.h"

namespace rondo::nccl {

struct Communicator {
  int rank, size;
  int device;        // of CUDA; cudaCpuDeviceId: none
  std::string name;  // of its config; may be empty
  // Where those who are left meet when it shrinks, as the dead cannot be asked: one place, or one by the
  // first of them.
  std::vector<rondoUniqueId> heirs_ids;
  bool ended = false;  // aborted to shrink; still to be destroyed
};

// The device of the calling thread, for a communicator that is being made; cudaCpuDeviceId without CUDA.
int device_of_this_thread();

// Safe from any thread. ------

// Makes a rank of a communicator. Waits for all ranks.
ncclComm_t make_communicator(int size, const rondoUniqueId& id, int rank, const std::string& name,
                             int device);
// For a communicator that Rondo has made on all ranks: gives it ids for its heirs.
ncclComm_t adopt(rondoComm_t made, const std::string& name, int device);
// The same where the caller has ids that all ranks know.
ncclComm_t adopt(rondoComm_t made, const std::string& name, int device, std::vector<rondoUniqueId> heirs_ids);

// Throws ncclInvalidArgument where `comm` was not made by NCCL's functions, or is no more.
Communicator find(ncclComm_t comm);
// Ends what is under way on every rank; `comm` is of no use but for destroy.
void end(ncclComm_t comm);
// True if it had ended already, and nothing of it is left in Rondo.
bool forget(ncclComm_t comm);

}  // namespace rondo::nccl
