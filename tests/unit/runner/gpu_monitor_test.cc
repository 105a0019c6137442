#include "runner/gpu_monitor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

TEST(GpuMonitorTest, ReadsWhatTheDriversLibrarySays) {
  const auto monitor = GpuMonitor::Open(FAKE_NVML);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(monitor->DriverVersion(), "580.82.07");
  EXPECT_EQ(DriverBranch(monitor.get()), "580");
  const GpuMonitor::Reading known = monitor->Read("GPU-1");
  EXPECT_DOUBLE_EQ(known.busy.value(), 0.42);
  EXPECT_DOUBLE_EQ(known.watts.value(), 311.5);
  EXPECT_EQ(known.free_bytes.value(), 60'000);
  const GpuMonitor::Reading other = monitor->Read("GPU-2");
  EXPECT_FALSE(other.busy.has_value());
  EXPECT_FALSE(other.watts.has_value());
  EXPECT_FALSE(other.free_bytes.has_value());
}

TEST(GpuMonitorTest, IsNotThereWithoutADriver) {
  EXPECT_EQ(GpuMonitor::Open("libnvidia-ml-of-nobody.so.1"), nullptr);
  EXPECT_EQ(GpuMonitor::Open("libm.so.6"), nullptr);
  setenv("FAKE_NVML_BROKEN", "1", 1);
  EXPECT_EQ(GpuMonitor::Open(FAKE_NVML), nullptr);
  unsetenv("FAKE_NVML_BROKEN");
}

TEST(DriverBranchTest, ComesFromTheKernelsModuleWithoutNvml) {
  const TempFolder folder;
  EXPECT_EQ(DriverBranch(nullptr, folder / "none"), "unknown");
  std::ofstream(folder / "version")
      << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  "
         "Release Build\nGCC version:  gcc version 12.2.0\n";
  EXPECT_EQ(DriverBranch(nullptr, folder / "version"), "575");
}

}  // namespace
}  // namespace stoker
