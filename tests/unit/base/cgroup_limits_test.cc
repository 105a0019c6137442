#include "base/cgroup_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

class CgroupLimitsTest : public ::testing::Test {
 protected:
  CgroupLimitsTest() {
    Write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:    10 kB\n");
  }
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  int64_t Limit() const { return MemoryLimit(root_.path() + "/"); }

  const TempFolder root_;
};

TEST_F(CgroupLimitsTest, MemoryOfTheMachineWithoutGroups) {
  EXPECT_EQ(Limit(), 1024'000);
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Limit(), 1024'000);
}

TEST_F(CgroupLimitsTest, MemoryVersion2TakesTheLeastOnTheWayUp) {
  Write("proc/self/cgroup", "0::/pods/one\n");
  Write("sys/fs/cgroup/pods/one/memory.max", "max\n");
  EXPECT_EQ(Limit(), 1024'000);
  Write("sys/fs/cgroup/pods/memory.max", "700000\n");
  EXPECT_EQ(Limit(), 700'000);
  Write("sys/fs/cgroup/pods/one/memory.max", "500000\n");
  EXPECT_EQ(Limit(), 500'000);
  Write("sys/fs/cgroup/memory.max", "400000\n");
  EXPECT_EQ(Limit(), 400'000);
}

TEST_F(CgroupLimitsTest, MemoryVersion1) {
  Write("proc/self/cgroup", "5:devices:/a\n4:memory:/box\n0::/\n");
  // What version 1 says where there is no limit.
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Limit(), 1024'000);
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "300000\n");
  EXPECT_EQ(Limit(), 300'000);
}

TEST_F(CgroupLimitsTest, MemoryNonsenseLimitsNothing) {
  Write("proc/self/cgroup", "nonsense\n0::relative\n0::/a:b\n");
  Write("sys/fs/cgroup/memory.max", "much\n");
  EXPECT_EQ(Limit(), 1024'000);
}

TEST_F(CgroupLimitsTest, UseIsOfTheGroupWithLeastLeft) {
  const auto use = [this] { return MemoryOfGroup(root_.path() + "/"); };
  Write("proc/self/cgroup", "0::/pods/one\n");
  EXPECT_FALSE(use().has_value());
  Write("sys/fs/cgroup/pods/one/memory.max", "500000\n");
  Write("sys/fs/cgroup/pods/one/memory.current", "450000\n");
  Write("sys/fs/cgroup/pods/one/memory.stat",
        "anon 1\nfile 200000\ninactive_file 150000\nactive_file 50000\n");
  ASSERT_TRUE(use().has_value());
  EXPECT_EQ(use()->used, 300'000);
  EXPECT_EQ(use()->limit, 500'000);
  Write("sys/fs/cgroup/pods/memory.max", "900000\n");
  Write("sys/fs/cgroup/pods/memory.current", "800000\n");
  EXPECT_EQ(use()->used, 800'000);
  EXPECT_EQ(use()->limit, 900'000);
}

TEST_F(CgroupLimitsTest, UseOfVersion1) {
  Write("proc/self/cgroup", "4:memory:/box\n0::/\n");
  const std::string box = "sys/fs/cgroup/memory/box/memory.";
  Write(box + "limit_in_bytes", "9223372036854771712\n");
  Write(box + "usage_in_bytes", "300000\n");
  EXPECT_FALSE(MemoryOfGroup(root_.path() + "/").has_value());
  Write(box + "limit_in_bytes", "400000\n");
  Write(box + "stat", "inactive_file 7\ntotal_inactive_file 100000\n");
  const auto use = MemoryOfGroup(root_.path() + "/");
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->used, 200'000);
  EXPECT_EQ(use->limit, 400'000);
}

TEST(MemoryLimit, OfThisMachine) {
  EXPECT_GT(MemoryLimit(), int64_t{64} << 20);
  EXPECT_LT(MemoryLimit(), int64_t{1} << 50);
}

TEST_F(CgroupLimitsTest, CpusOfVersion2) {
  Write("proc/self/cgroup", "0::/pods/one\n");
  EXPECT_TRUE(std::isinf(CpuLimit(root_.path() + "/")));
  Write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(CpuLimit(root_.path() + "/")));
  Write("sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
  EXPECT_EQ(CpuLimit(root_.path() + "/"), 4);
  Write("sys/fs/cgroup/pods/one/cpu.max", "150000 100000\n");
  EXPECT_EQ(CpuLimit(root_.path() + "/"), 1.5);
}

TEST_F(CgroupLimitsTest, CpusOfVersion1) {
  Write("proc/self/cgroup", "4:cpu,cpuacct:/box\n");
  Write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(CpuLimit(root_.path() + "/")));
  Write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(CpuLimit(root_.path() + "/"), 2);
}

TEST_F(CgroupLimitsTest, SomeCoreIsAlwaysUsable) {
  EXPECT_GE(UsableCores(), 1);
}

}  // namespace
}  // namespace stoker
