// Memory, and its registration.
#include "nccl/types.h"

using namespace rondo::nccl;

namespace {

// What a window's owner promises, and Rondo does not need: that all ranks register alike, and of 2.30, that
// writes keep their order.
constexpr int promises = NCCL_WIN_COLL_SYMMETRIC | (NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0) ? 0x02 : 0);

}  // namespace

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return at_the_edge("ncclMemAlloc", [&] { check(rondoMemAlloc(ptr, size)); });
}

ncclResult_t ncclMemFree(void* ptr) {
  return at_the_edge("ncclMemFree", [&] { check(rondoMemFree(ptr)); });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return at_the_edge("ncclCommRegister",
                     [&] { check(rondoCommRegister(to_rondo(comm), buff, size, handle)); });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return at_the_edge("ncclCommDeregister", [&] { check(rondoCommDeregister(to_rondo(comm), handle)); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags) {
  return at_the_edge("ncclCommWindowRegister", [&] {
    need("win", win);
    rondoWindow_t made = nullptr;
    check(rondoCommWindowRegister(to_rondo(comm), buff, size, &made, winFlags & ~promises));
    *win = reinterpret_cast<ncclWindow_t>(made);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return at_the_edge("ncclCommWindowDeregister", [&] {
    check(rondoCommWindowDeregister(to_rondo(comm), reinterpret_cast<rondoWindow_t>(win)));
  });
}

RONDO_NCCL_TWIN(ncclMemAlloc);
RONDO_NCCL_TWIN(ncclMemFree);
RONDO_NCCL_TWIN(ncclCommRegister);
RONDO_NCCL_TWIN(ncclCommDeregister);
RONDO_NCCL_TWIN(ncclCommWindowRegister);
RONDO_NCCL_TWIN(ncclCommWindowDeregister);
