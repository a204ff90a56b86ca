// NCCL's functions over several hosts, which are network namespaces.
#include <nccl.h>

#include <cstdlib>

#include "tests/test_hosts.h"

namespace rondo::test {
namespace {

void expect_well(ncclResult_t result) { EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr); }

// No rank has RONDO_COMM_ID, only who makes the id: so heirs can meet on one host, which may be any.
TEST(NcclOverHosts, WhoIsLeftOnOneHostGoesOn) {
  if (!TestHosts::obstacle().empty()) GTEST_SKIP() << TestHosts::obstacle();
  const TestHosts& hosts = TestHosts::shared(2);
  ::setenv("RONDO_COMM_ID", (hosts.address(0) + ":29456").c_str(), 1);
  ncclUniqueId id;
  expect_well(ncclGetUniqueId(&id));
  ::unsetenv("RONDO_COMM_ID");
  run_processes(4, [&](int rank) {
    hosts.enter(rank / 2);
    ncclComm_t comm = nullptr, left = nullptr;
    expect_well(ncclCommInitRank(&comm, 4, id, rank));
    if (rank >= 2) {
      int gone[] = {0, 1}, sum = 1;
      expect_well(ncclCommShrink(comm, gone, 2, &left, nullptr, NCCL_SHRINK_DEFAULT));
      expect_well(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, left, nullptr));
      EXPECT_EQ(sum, 2);
      expect_well(ncclCommDestroy(left));
    }
    expect_well(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace rondo::test
