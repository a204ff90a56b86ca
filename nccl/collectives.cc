// Collectives, messages and groups.
#include "nccl/starts.h"
#include "nccl/types.h"

using namespace rondo::nccl;

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclAllReduce", [&] {
    check(rondoAllReduce(sendbuff, recvbuff, count, computed(datatype), to_rondo(op), to_rondo(comm),
                         to_rondo(stream)));
  });
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclReduce", [&] {
    check(rondoReduce(sendbuff, recvbuff, count, computed(datatype), to_rondo(op), root, to_rondo(comm),
                      to_rondo(stream)));
  });
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return at_the_edge("ncclReduceScatter", [&] {
    check(rondoReduceScatter(sendbuff, recvbuff, recvcount, computed(datatype), to_rondo(op), to_rondo(comm),
                             to_rondo(stream)));
  });
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclAllGather", [&] {
    check(rondoAllGather(sendbuff, recvbuff, sendcount, moved(datatype), to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclBroadcast", [&] {
    check(rondoBroadcast(sendbuff, recvbuff, count, moved(datatype), root, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return at_the_edge("ncclBcast", [&] {
    check(rondoBroadcast(buff, buff, count, moved(datatype), root, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclAlltoAll", [&] {
    check(rondoAlltoAll(sendbuff, recvbuff, count, moved(datatype), to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclGather", [&] {
    check(rondoGather(sendbuff, recvbuff, count, moved(datatype), root, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return at_the_edge("ncclScatter", [&] {
    check(rondoScatter(sendbuff, recvbuff, count, moved(datatype), root, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return at_the_edge("ncclSend", [&] {
    check(rondoSend(sendbuff, count, moved(datatype), peer, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return at_the_edge("ncclRecv", [&] {
    check(rondoRecv(recvbuff, count, moved(datatype), peer, to_rondo(comm), to_rondo(stream)));
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return at_the_edge("ncclRedOpCreatePreMulSum", [&] {
    need("op", op);
    rondoRedOp_t made = rondoSum;
    check(rondoRedOpCreatePreMulSum(&made, scalar, computed(datatype),
                                    static_cast<rondoScalarResidence_t>(residence), to_rondo(comm)));
    *op = static_cast<ncclRedOp_t>(made);
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return at_the_edge("ncclRedOpDestroy", [&] { check(rondoRedOpDestroy(to_rondo(op), to_rondo(comm))); });
}

ncclResult_t ncclGroupStart() {
  return at_the_edge("ncclGroupStart", [] { group_start(); });
}

ncclResult_t ncclGroupEnd() {
  return at_the_edge("ncclGroupEnd", [] { group_end(); });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  return at_the_edge("ncclGroupSimulateEnd", [] {
    not_offered("the group is still open, and ncclGroupEnd ends it; `rondo explain` tells times");
  });
}

RONDO_NCCL_TWIN(ncclAllReduce);
RONDO_NCCL_TWIN(ncclReduce);
RONDO_NCCL_TWIN(ncclReduceScatter);
RONDO_NCCL_TWIN(ncclAllGather);
RONDO_NCCL_TWIN(ncclBroadcast);
RONDO_NCCL_TWIN(ncclBcast);
RONDO_NCCL_TWIN(ncclAlltoAll);
RONDO_NCCL_TWIN(ncclGather);
RONDO_NCCL_TWIN(ncclScatter);
RONDO_NCCL_TWIN(ncclSend);
RONDO_NCCL_TWIN(ncclRecv);
RONDO_NCCL_TWIN(ncclRedOpCreatePreMulSum);
RONDO_NCCL_TWIN(ncclRedOpDestroy);
RONDO_NCCL_TWIN(ncclGroupStart);
RONDO_NCCL_TWIN(ncclGroupEnd);
RONDO_NCCL_TWIN(ncclGroupSimulateEnd);
