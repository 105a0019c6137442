#include "tensor/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

constexpr char kMig[] = "cuda:MIG-0f8b1c2d-1111-2222-3333-444455556666";
constexpr char kGpu[] = "cuda:GPU-0f8b1c2d-1111-2222-3333-444455556666";

TEST(ParseDevice, ReadsEveryFormAndWritesItBack) {
  for (const std::string text :
       {"cpu", "cuda:0", "cuda:7", "cuda:auto", kGpu, kMig}) {
    const absl::StatusOr<Device> device = ParseDevice(text);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(device->Text(), text);
    EXPECT_EQ(device->is_gpu(), text != "cpu");
  }
  EXPECT_EQ(ParseDevice("cuda:3")->index, 3);
  EXPECT_EQ(ParseDevice(kMig)->uuid,
            "MIG-0f8b1c2d-1111-2222-3333-444455556666");
}

TEST(ParseDevice, SaysWhatThereIs) {
  for (const std::string text :
       {"", "cuda", "cuda:", "cuda:-1", "cuda:64", "cuda:1x", "gpu:0", "CPU",
        "cuda: 1", "cuda:+1", "cuda:GPU-12", "cuda:99999999999"}) {
    const absl::StatusOr<Device> device = ParseDevice(text);
    ASSERT_FALSE(device.ok()) << text;
    EXPECT_THAT(std::string(device.status().message()),
                testing::AllOf(testing::HasSubstr("cuda:auto"),
                               testing::HasSubstr("got \"" + text + "\"")));
  }
}

}  // namespace
}  // namespace stoker
