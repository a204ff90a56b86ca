// NCCL's types as Rondo's. Handles, numbers and ids are the same by design: this is where that is checked.
#pragma once

#include <cstring>

#include "nccl/edge.h"

namespace rondo::nccl {

static_assert(static_cast<int>(ncclInt8) == rondoInt8 && static_cast<int>(ncclUint8) == rondoUint8 &&
              static_cast<int>(ncclInt32) == rondoInt32 && static_cast<int>(ncclUint32) == rondoUint32 &&
              static_cast<int>(ncclInt64) == rondoInt64 && static_cast<int>(ncclUint64) == rondoUint64 &&
              static_cast<int>(ncclFloat16) == rondoFloat16 &&
              static_cast<int>(ncclFloat32) == rondoFloat32 &&
              static_cast<int>(ncclFloat64) == rondoFloat64 &&
              static_cast<int>(ncclBfloat16) == rondoBfloat16);
static_assert(static_cast<int>(ncclSum) == rondoSum && static_cast<int>(ncclProd) == rondoProd &&
              static_cast<int>(ncclMax) == rondoMax && static_cast<int>(ncclMin) == rondoMin &&
              static_cast<int>(ncclAvg) == rondoAvg && static_cast<int>(ncclNumOps) == rondoNumOps);
static_assert(static_cast<int>(ncclScalarDevice) == rondoScalarDevice &&
              static_cast<int>(ncclScalarHostImmediate) == rondoScalarHostImmediate);
static_assert(NCCL_SPLIT_NOCOLOR == RONDO_SPLIT_NOCOLOR && NCCL_WIN_DEFAULT == RONDO_WIN_DEFAULT);
static_assert(sizeof(ncclUniqueId) == sizeof(rondoUniqueId));

inline rondoComm_t to_rondo(ncclComm_t comm) { return reinterpret_cast<rondoComm_t>(comm); }
inline ncclComm_t from_rondo(rondoComm_t comm) { return reinterpret_cast<ncclComm_t>(comm); }
inline rondoStream_t to_rondo(cudaStream_t stream) { return reinterpret_cast<rondoStream_t>(stream); }
inline rondoRedOp_t to_rondo(ncclRedOp_t op) { return static_cast<rondoRedOp_t>(op); }
inline rondoUniqueId to_rondo(const ncclUniqueId& id) {
  rondoUniqueId same;
  std::memcpy(same.internal, id.internal, sizeof same.internal);
  return same;
}
inline ncclUniqueId from_rondo(const rondoUniqueId& id) {
  ncclUniqueId same;
  std::memcpy(same.internal, id.internal, sizeof same.internal);
  return same;
}
inline ncclUniqueId new_id() {
  rondoUniqueId id;
  check(rondoGetUniqueId(&id));
  return from_rondo(id);
}

inline bool is_f8(ncclDataType_t type) { return type == ncclFloat8e4m3 || type == ncclFloat8e5m2; }

// For calls that compute. f8 is refused; a number that is no type is Rondo's to refuse.
inline rondoDataType_t computed(ncclDataType_t type) {
  if (is_f8(type))
    not_offered(type == ncclFloat8e4m3 ? "arithmetic on ncclFloat8e4m3" : "arithmetic on ncclFloat8e5m2");
  return static_cast<rondoDataType_t>(type);
}

// For calls that only move: f8 travels as the bytes it is.
inline rondoDataType_t moved(ncclDataType_t type) {
  return is_f8(type) ? rondoUint8 : static_cast<rondoDataType_t>(type);
}

}  // namespace rondo::nccl
