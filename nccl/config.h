// ncclConfig_t.
#pragma once

#include <string>

#include "nccl/header.h"

namespace rondo::nccl {

// Checks a config as NCCL does, and gives the one thing in it that means something to Rondo: the
// communicator's name, empty for none. The rest is about GPUs and their networks. Null is a config without
// wishes.
std::string name_from(const ncclConfig_t* config);

}  // namespace rondo::nccl
