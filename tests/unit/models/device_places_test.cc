#include "models/device_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_gpu_loader.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<RunResult> Nothing(absl::Span<const Tensor>) {
  return RunResult();
}

class TwoGpus : public Gpus {
 public:
  explicit TwoGpus(FakeClock& clock) : loaders_{{clock}, {clock}} {
    for (int i = 0; i < 2; ++i) {
      facts_.push_back({.index = i,
                        .name = "H100",
                        .uuid = "GPU-" + std::to_string(i),
                        .target = {"sm_90", 132, 79, "580"}});
    }
  }
  const std::vector<GpuFacts>& facts() const override { return facts_; }
  int64_t FreeBytes(int index) override { return index == 1 ? 9 : 5; }
  absl::StatusOr<ExecutableLoader*> Loader(int index) override {
    if (!started_.ok()) return started_;
    return &loaders_[index].loader;
  }

  std::vector<GpuFacts> facts_;
  absl::Status started_;

 private:
  struct One {
    One(FakeClock& clock) : loader(clock, Nothing) {}
    FakeGpuLoader loader;
  };
  One loaders_[2];
};

class DevicePlacesTest : public ::testing::Test {
 protected:
  static ModelSpec On(const std::vector<std::string>& devices) {
    ModelSpec spec;
    spec.name = "m";
    spec.devices.clear();
    for (const std::string& device : devices) {
      spec.devices.push_back(*ParseDevice(device));
    }
    return spec;
  }
  std::string Refusal(const std::vector<std::string>& devices) {
    return std::string(places_.Find(On(devices)).status().message());
  }

  FakeClock clock_;
  FakeGpuLoader cpu_{clock_, Nothing};
  TwoGpus gpus_{clock_};
  DevicePlaces places_{4, cpu_, [this] { return &gpus_; }, clock_};
};

TEST_F(DevicePlacesTest, TheProcessorNeedsNoGpu) {
  DevicePlaces none(4, cpu_, nullptr, clock_);
  const auto found = none.Find(On({"cpu"}));
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->places.size(), 1u);
  EXPECT_EQ(found->places[0].loader, &cpu_);
  EXPECT_FALSE(found->gpu.has_value());
  EXPECT_EQ(std::string(none.Find(On({"cuda:0"})).status().message()),
            "device cuda:0 was asked for: this server uses no GPU");
}

TEST_F(DevicePlacesTest, OneGpuSeveralAndTheFreest) {
  EXPECT_EQ(places_.Find(On({"cuda:auto"}))->places[0].name, "cuda:1");
  const auto both = places_.Find(On({"cuda:1", "cuda:0"}));
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->places[0].name, "cuda:1");
  EXPECT_EQ(both->places[1].name, "cuda:0");
  EXPECT_EQ(both->gpu->arch, "sm_90");
  const auto one = places_.Find(On({"cuda:1"}));
  // Whoever is on a GPU shares its turns.
  EXPECT_EQ(one->places[0].turns, both->places[0].turns);
  EXPECT_NE(one->places[0].turns, both->places[1].turns);
  EXPECT_EQ(one->places[0].turns,
            places_.Find(On({"cuda:auto"}))->places[0].turns);
}

TEST_F(DevicePlacesTest, RefusesWithWhatWasAskedForAndWhy) {
  EXPECT_THAT(Refusal({"cuda:0", "cuda:2"}),
              AllOf(HasSubstr("device cuda:0, cuda:2 was asked for"),
                    HasSubstr("cuda:2 isn't here")));
  gpus_.facts_[1].target.sms = 114;
  EXPECT_THAT(Refusal({"cuda:0", "cuda:1"}), HasSubstr("equal GPUs"));
  gpus_.started_ = absl::UnavailableError("cuda:0 can't be used: busy");
  EXPECT_TRUE(absl::IsUnavailable(places_.Find(On({"cuda:0"})).status()));
}

}  // namespace
}  // namespace stoker
