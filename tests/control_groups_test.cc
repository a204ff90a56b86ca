// Quotas and cpusets from made-up folders of control groups.
#include "src/control_groups.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace rondo {
namespace {

class Groups : public ::testing::Test {
 protected:
  void add(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    folder_.write(path, content);
  }
  ControlGroups groups() const { return {folder_ / "cgroup", folder_ / "membership"}; }

  TemporaryFolder folder_;
};

TEST_F(Groups, NothingSaysNothing) {
  EXPECT_FALSE(cpu_quota(groups()));
  EXPECT_TRUE(cpus_of_group(groups()).empty());
}

TEST_F(Groups, AContainerIsItsOwnRoot) {
  add("membership", "0::/\n");
  add("cgroup/cpu.max", "150000 100000\n");
  add("cgroup/cpuset.cpus.effective", "0-2,5\n");
  EXPECT_EQ(cpu_quota(groups()), 1.5);
  EXPECT_EQ(cpus_of_group(groups()), (std::vector<int>{0, 1, 2, 5}));
}

TEST_F(Groups, MaxIsNoLimit) {
  add("membership", "0::/\n");
  add("cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpu_quota(groups()));
}

TEST_F(Groups, TheTightestOfAllGroupsAroundCounts) {
  add("membership", "0::/user/job/step\n");
  add("cgroup/user/cpu.max", "400000 100000\n");
  add("cgroup/user/job/cpu.max", "200000 100000\n");
  add("cgroup/user/job/step/cpu.max", "max 100000\n");
  add("cgroup/user/cpuset.cpus.effective", "0-7\n");
  add("cgroup/user/job/cpuset.cpus.effective", "2-3\n");
  EXPECT_EQ(cpu_quota(groups()), 2.0);
  EXPECT_EQ(cpus_of_group(groups()), (std::vector<int>{2, 3}));
}

TEST_F(Groups, PathsOfOutsideAreNotThereInAContainer) {
  add("membership", "0::/docker/1234\n");
  add("cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(groups()), 3.0);
}

TEST_F(Groups, VersionOneHasAFolderForEachController) {
  add("membership", "4:cpu,cpuacct:/job\n3:cpuset:/job\n0::/\n");
  add("cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  add("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  add("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  add("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  add("cgroup/cpuset/job/cpuset.cpus", "1\n");
  EXPECT_EQ(cpu_quota(groups()), 0.5);
  EXPECT_EQ(cpus_of_group(groups()), std::vector<int>{1});
}

TEST(CpuList, IsReadOrEmpty) {
  EXPECT_EQ(parse_cpu_list("0-1,4"), (std::vector<int>{0, 1, 4}));
  for (const char* bad : {"", "x", "1-", "-1", "1,,2", "0-1x"})
    EXPECT_TRUE(parse_cpu_list(bad).empty()) << bad;
  EXPECT_TRUE(parse_cpu_list("3-1").empty());
}

}  // namespace
}  // namespace rondo
