#include "runner/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kUuid[] = "GPU-0f8b1c2d-1111-2222-3333-444455556666";

std::vector<GpuFacts> Two() {
  GpuFacts first{.index = 0, .name = "H100", .uuid = kUuid};
  GpuFacts second{.index = 1, .name = "H100", .uuid = "GPU-other"};
  return {first, second};
}

TEST(FindGpu, ByIndexUuidAndFreeMemory) {
  EXPECT_EQ(FindGpu(*ParseDevice("cuda:1"), Two(), {0, 0}).value(), 1);
  EXPECT_EQ(FindGpu(*ParseDevice(std::string("cuda:") + kUuid), Two(), {0, 0})
                .value(),
            0);
  EXPECT_EQ(FindGpu(*ParseDevice("cuda:auto"), Two(), {5, 9}).value(), 1);
  EXPECT_EQ(FindGpu(*ParseDevice("cuda:auto"), Two(), {9, 9}).value(), 0);
}

TEST(FindGpu, SaysWhatThereIs) {
  const auto none = FindGpu(*ParseDevice("cuda:2"), Two(), {0, 0});
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("cuda:2 isn't here"),
                    HasSubstr(std::string("cuda:0 (H100, ") + kUuid + ")"),
                    HasSubstr("cuda:1 (H100")));
  const auto slice =
      FindGpu(*ParseDevice("cuda:MIG-0f8b1c2d-1111-2222-3333-444455556666"),
              Two(), {0, 0});
  EXPECT_THAT(std::string(slice.status().message()),
              HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(OpenGpus, SaysInOneLineWhatIsMissing) {
  const TempFolder folder;
  const auto nowhere = OpenGpus(folder / "libstoker_cuda.so", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(nowhere.status()));
  EXPECT_THAT(std::string(nowhere.status().message()),
              AllOf(HasSubstr("no GPU can be used"),
                    HasSubstr("libstoker_cuda.so isn't there"),
                    HasSubstr("--cuda-library")));
  std::ofstream(folder / "broken.so") << "no library";
  const auto broken = OpenGpus(folder / "broken.so", {});
  EXPECT_THAT(std::string(broken.status().message()),
              AllOf(HasSubstr("broken.so"), testing::Not(HasSubstr("\n"))));
  const auto other = OpenGpus("libm.so.6", {});
  EXPECT_FALSE(other.ok());
}

}  // namespace
}  // namespace stoker
