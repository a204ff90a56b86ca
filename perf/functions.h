// The functions that a measurement calls: Rondo's, or those of NCCL (nccl_library.h), which stand here by
// Rondo's types. What goes through them is the same for both: pointers, sizes, and types and operators by
// NCCL's numbers. Where NVIDIA's nccl.h is found, nccl_signatures.cc checks the arguments and nccl/types.h
// the numbers.
#pragma once

#include "include/rondo/rondo.h"

namespace rondo {

struct Functions {
  decltype(&::rondoGetErrorString) get_error_string;
  decltype(&::rondoGetLastError) get_last_error;
  decltype(&::rondoGetUniqueId) get_unique_id;
  decltype(&::rondoCommInitRank) comm_init_rank;
  decltype(&::rondoCommDestroy) comm_destroy;
  decltype(&::rondoCommAbort) comm_abort;
  decltype(&::rondoCommGetAsyncError) comm_get_async_error;
  decltype(&::rondoRedOpCreatePreMulSum) red_op_create_pre_mul_sum;
  decltype(&::rondoRedOpDestroy) red_op_destroy;
  decltype(&::rondoGroupStart) group_start;
  decltype(&::rondoGroupEnd) group_end;
  decltype(&::rondoAllReduce) all_reduce;
  decltype(&::rondoAllGather) all_gather;
  decltype(&::rondoReduceScatter) reduce_scatter;
  decltype(&::rondoBroadcast) broadcast;
  decltype(&::rondoReduce) reduce;
  decltype(&::rondoSend) send;
  decltype(&::rondoRecv) recv;
  // Null in an NCCL older than 2.28.
  decltype(&::rondoAlltoAll) all_to_all;
  decltype(&::rondoGather) gather;
  decltype(&::rondoScatter) scatter;
};

inline constexpr Functions rondo_functions{
    ::rondoGetErrorString, ::rondoGetLastError,  ::rondoGetUniqueId,       ::rondoCommInitRank,
    ::rondoCommDestroy,    ::rondoCommAbort,     ::rondoCommGetAsyncError, ::rondoRedOpCreatePreMulSum,
    ::rondoRedOpDestroy,   ::rondoGroupStart,    ::rondoGroupEnd,          ::rondoAllReduce,
    ::rondoAllGather,      ::rondoReduceScatter, ::rondoBroadcast,         ::rondoReduce,
    ::rondoSend,           ::rondoRecv,          ::rondoAlltoAll,          ::rondoGather,
    ::rondoScatter,
};

// Whose functions are called, and on which communicator.
struct Callee {
  const char* name;  // in messages
  const Functions& functions;
  rondoComm_t comm;

  // Throws what the callee says of its failure.
  void check(rondoResult_t result) const;
};

}  // namespace rondo
