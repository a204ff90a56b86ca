// Communicators that are made inside a group. One thread may make several ranks there, which wait for one
// another: so they are made when the group ends, each in a thread of its own.
#pragma once

#include <functional>

#include "nccl/header.h"

namespace rondo::nccl {

// Runs `start`, at once, or at the end of the group that this thread has open. Starts of one parent run one
// after another, those without (null) at the same time. `function` stands before what goes wrong.
void start(const char* function, ncclComm_t parent, std::function<void()> start);

// These open and close Rondo's group too. The end throws the first failure among calls and starts.
void group_start();
void group_end();

}  // namespace rondo::nccl
