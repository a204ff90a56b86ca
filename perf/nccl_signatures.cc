// That NVIDIA's nccl.h declares what functions.h calls: each argument as large, and of the same sort, as that
// of Rondo's function.
#include <nccl.h>

#include <type_traits>

#include "perf/functions.h"

namespace rondo {
namespace {

template <typename A, typename B>
constexpr bool same_sort =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>;

template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename A, typename B, typename... As, typename... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct SameCall<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<same_sort<A, B> && (same_sort<As, Bs> && ...)> {
};

template <typename Ours, typename Nccls>
constexpr void check(Ours, Nccls) {
  static_assert(SameCall<Ours, Nccls>::value);
}

[[maybe_unused]] constexpr void check_all(const Functions& ours) {
  check(ours.get_error_string, &ncclGetErrorString);
  check(ours.get_last_error, &ncclGetLastError);
  check(ours.get_unique_id, &ncclGetUniqueId);
  check(ours.comm_init_rank, &ncclCommInitRank);
  check(ours.comm_destroy, &ncclCommDestroy);
  check(ours.comm_abort, &ncclCommAbort);
  check(ours.comm_get_async_error, &ncclCommGetAsyncError);
  check(ours.red_op_create_pre_mul_sum, &ncclRedOpCreatePreMulSum);
  check(ours.red_op_destroy, &ncclRedOpDestroy);
  check(ours.group_start, &ncclGroupStart);
  check(ours.group_end, &ncclGroupEnd);
  check(ours.all_reduce, &ncclAllReduce);
  check(ours.all_gather, &ncclAllGather);
  check(ours.reduce_scatter, &ncclReduceScatter);
  check(ours.broadcast, &ncclBroadcast);
  check(ours.reduce, &ncclReduce);
  check(ours.send, &ncclSend);
  check(ours.recv, &ncclRecv);
  check(ours.all_to_all, &ncclAlltoAll);
  check(ours.gather, &ncclGather);
  check(ours.scatter, &ncclScatter);
}

}  // namespace
}  // namespace rondo
