// NCCL's functions that have to do with GPUs, on a host without one: what they say.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "nccl/device_header.h"

namespace rondo::nccl {
namespace {

constexpr int size = 2;

class NcclDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ncclCommInitAll(comms_, size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void TearDown() override {
    for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }

  ncclComm_t comms_[size] = {};
};

void expect_refused(ncclResult_t result, const char* text) {
  EXPECT_EQ(result, ncclInvalidUsage);
  EXPECT_NE(std::strstr(ncclGetLastError(nullptr), text), nullptr) << ncclGetLastError(nullptr);
}

TEST_F(NcclDevice, TeamsAreArithmetic) {
  const ncclTeam_t world = ncclTeamWorld(comms_[1]);
  EXPECT_EQ(world.nRanks, 2);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.stride, 1);
  EXPECT_EQ(ncclTeamLsa(comms_[1]).nRanks, 1);
  EXPECT_EQ(ncclTeamRail(comms_[1]).nRanks, 2);
  EXPECT_EQ(ncclTeamRankToWorld(comms_[1], world, 0), 0);
  EXPECT_EQ(ncclTeamRankToWorld(comms_[1], ncclTeamLsa(comms_[1]), 0), 1);
  EXPECT_EQ(ncclTeamRankToLsa(comms_[1], world, 1), 0);
  EXPECT_EQ(ncclTeamWorld(nullptr).nRanks, 0);
  EXPECT_NE(std::strstr(ncclGetLastError(nullptr), "ncclTeamWorld: comm"), nullptr);
}

TEST_F(NcclDevice, KernelsHaveNoCommunicators) {
  ncclDevComm_t made;
  expect_refused(ncclDevCommCreate(comms_[0], nullptr, &made),
                 "ncclDevCommCreate: not offered by Rondo: communicators inside kernels");
  expect_refused(ncclDevCommDestroy(comms_[0], &made), "ncclDevCommDestroy: not offered");
  expect_refused(ncclLsaBarrierCreateRequirement({}, 1, nullptr, nullptr),
                 "ncclLsaBarrierCreateRequirement:");
  expect_refused(ncclGinBarrierCreateRequirement(comms_[0], {}, 1, nullptr, nullptr),
                 "ncclGinBarrierCreateRequirement:");
  expect_refused(ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr), "ncclLLA2ACreateRequirement:");
  EXPECT_EQ(ncclLLA2ACalcSlots(1, 1), 0);
}

TEST(NcclDevices, AreThoseOfTheList) {
  const int devices[] = {5, 4};
  ncclComm_t comms[size];
  ASSERT_EQ(ncclCommInitAll(comms, size, devices), ncclSuccess);
  for (int rank = 0; rank < size; ++rank) {
    int device = -7;
    EXPECT_EQ(ncclCommCuDevice(comms[rank], &device), ncclSuccess);
    EXPECT_EQ(device, devices[rank]);
    EXPECT_EQ(ncclCommDestroy(comms[rank]), ncclSuccess);
  }
}

// Last, since a driver that is loaded once stays.
TEST(NcclWithADriver, KnowsItsDevices) {
  void* const driver = ::dlopen(FAKE_CUDA_DRIVER, RTLD_NOW);
  ASSERT_NE(driver, nullptr) << ::dlerror();
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << ncclGetLastError(nullptr);
  int device = -7;
  EXPECT_EQ(ncclCommCuDevice(comm, &device), ncclSuccess);
  EXPECT_EQ(device, 3);

  float value = 2;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace rondo::nccl
