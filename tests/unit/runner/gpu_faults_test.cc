#include "runner/gpu_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kMemory = 2;
constexpr int kIllegalAddress = 700;
constexpr int kNoDevice = 100;
constexpr int kCaptureInvalidated = 901;
constexpr int kInvalidValue = 1;

class GpuHealthTest : public ::testing::Test {
 protected:
  std::vector<std::string> lost_;
  GpuHealth health_{"cuda:0",
                    [this](const std::string& why) { lost_.push_back(why); }};
};

TEST(FaultOf, KnowsWhatPoisonsAContext) {
  const std::pair<int, GpuFault> kTable[] = {
      {0, GpuFault::kNone},      {1, GpuFault::kOther},
      {2, GpuFault::kMemory},    {46, GpuFault::kGone},
      {100, GpuFault::kGone},    {214, GpuFault::kSticky},
      {220, GpuFault::kSticky},  {600, GpuFault::kOther},
      {700, GpuFault::kSticky},  {702, GpuFault::kSticky},
      {710, GpuFault::kSticky},  {719, GpuFault::kSticky},
      {803, GpuFault::kGone},    {900, GpuFault::kCapture},
      {908, GpuFault::kCapture}, {909, GpuFault::kOther},
      {999, GpuFault::kSticky},
  };
  for (const auto& [error, fault] : kTable) {
    EXPECT_EQ(FaultOf(error), fault) << error;
  }
}

TEST_F(GpuHealthTest, MemoryAndCapturesHarmNobodyElse) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      health_.Report(kMemory, "running the program", "out of memory")));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      health_.Report(kCaptureInvalidated, "capturing a graph", "invalidated")));
  EXPECT_TRUE(absl::IsInternal(
      health_.Report(kInvalidValue, "running the program", "invalid")));
  EXPECT_TRUE(health_.Check().ok());
  EXPECT_THAT(lost_, ElementsAre());
}

TEST_F(GpuHealthTest, AStickyErrorIsToldOnceAndRefusesEverythingAfter) {
  const absl::Status first =
      health_.Report(kIllegalAddress, "compiled program, bucket batch=8",
                     "an illegal memory access was encountered");
  EXPECT_TRUE(absl::IsUnavailable(first));
  EXPECT_THAT(std::string(first.message()),
              AllOf(HasSubstr("cuda:0 failed (CUDA error 700, compiled "
                              "program, bucket batch=8)"),
                    HasSubstr("illegal memory access"),
                    HasSubstr("has to be started again")));
  // What the others hear from then on, whatever CUDA tells them.
  EXPECT_EQ(health_.Check(), first);
  EXPECT_EQ(health_.Report(kMemory, "x", "y"), first);
  EXPECT_EQ(health_.Report(kIllegalAddress, "x", "y"), first);
  health_.ReportWedged(absl::Seconds(3));
  EXPECT_THAT(lost_, ElementsAre(std::string(first.message())));
}

TEST_F(GpuHealthTest, ADeviceThatDisappearsIsLost) {
  EXPECT_TRUE(absl::IsUnavailable(
      health_.Report(kNoDevice, "running the program", "no device")));
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("cuda:0 is gone")));
}

TEST_F(GpuHealthTest, ARunThatDoesNotEndLosesTheDevice) {
  health_.ReportWedged(absl::Seconds(121));
  EXPECT_TRUE(absl::IsUnavailable(health_.Check()));
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("has not ended for 2m1s")));
}

}  // namespace
}  // namespace stoker
