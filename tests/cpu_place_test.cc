// Where a rank runs, from a made-up folder of the kernel's.
#include "src/cpu_place.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// 2 packages of 4 CPUs, 2 to a last-level cache, and a node for each package.
class Machine : public ::testing::Test {
 protected:
  Machine() {
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string folder = "cpu" + std::to_string(cpu) + "/";
      const int first = cpu - cpu % 2;
      add(folder + "topology/physical_package_id", std::to_string(cpu / 4));
      add(folder + "topology/core_id", std::to_string(cpu % 4));
      add(folder + "cache/index0/level", "1");
      add(folder + "cache/index0/shared_cpu_list", std::to_string(cpu));
      add(folder + "cache/index1/level", "3");
      add(folder + "cache/index1/shared_cpu_list", std::to_string(first) + "-" + std::to_string(first + 1));
      add(folder + "node" + std::to_string(cpu / 4) + "/distance", "10");
    }
  }
  void add(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    folder_.write(path, content + "\n");
  }
  CpuPlace place(const std::vector<int>& cpus) const { return cpu_place(cpus, folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(Machine, TellsWhereARankIs) {
  EXPECT_EQ(place({6}), (CpuPlace{1, 1, 6, 2}));
  EXPECT_EQ(place({2, 3}), (CpuPlace{0, 0, 2, 2})) << "two CPUs of one cache";
  EXPECT_LT(place({3}), place({4})) << "packages first, whatever number a core has there";
  EXPECT_LT(place({0}), place({1}));
}

TEST_F(Machine, ARankThatMayGoAnywhereIsNowhere) {
  EXPECT_FALSE(place({1, 2}).known()) << "of two caches";
  EXPECT_FALSE(place({0, 1, 2, 3, 4, 5, 6, 7}).known());
  EXPECT_FALSE(place({}).known());
}

TEST_F(Machine, WhatTheKernelDoesNotTellIsUnknown) {
  EXPECT_FALSE(place({8}).known());
  std::filesystem::remove(folder_ / "cpu5/topology/core_id");
  EXPECT_FALSE(place({5}).known());
  std::filesystem::remove_all(folder_ / "cpu4/cache");
  EXPECT_FALSE(place({4}).known());
}

TEST(ThisMachine, IsReadAsItIs) {
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/topology/core_id") ||
      !std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list"))
    GTEST_SKIP() << "the kernel tells neither of cores nor of caches";
  EXPECT_TRUE(cpu_place(std::vector<int>{0}).known());
}

}  // namespace
}  // namespace rondo
