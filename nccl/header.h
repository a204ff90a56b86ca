// NVIDIA's nccl.h. What it declares is what this library shows, so that much of it is visible.
//
// Two versions are known: 2.28 (from 2.28.9 on) and 2.30 (from 2.30.7 on). What 2.30 has added is in files of
// its own, which the build leaves out with the older header.
#pragma once

#include <cuda_runtime.h>

#define NCCL_OS_LINUX  // 2.30 declares ncclResetDebugInit only so, and the library has it everywhere

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

// The name under which tools that stand in front of `name` call it. Compiled against nccl.h's declaration.
#define RONDO_NCCL_TWIN(name) extern "C" decltype(name) p##name __attribute__((alias(#name)))
