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
  static ModelSpec Taking(const std::vector<std::string>& devices,
                          const std::string& name, ResourceDemand demand) {
    ModelSpec spec = On(devices);
    spec.resources = {{name, demand}};
    return spec;
  }
  std::string Refusal(const std::vector<std::string>& devices) {
    return Refusal(On(devices));
  }
  std::string Refusal(const ModelSpec& spec) {
    return std::string(places_.Find(spec).status().message());
  }

  FakeClock clock_;
  FakeGpuLoader cpu_{clock_, Nothing};
  TwoGpus gpus_{clock_};
  MetricRegistry metrics_;
  ResourceLimits limits_ = {
      .limits = {{"slots", 4, ""}, {"slots", 2, "cuda:1"}, {"lanes", 3, ""}}};
  DevicePlaces places_{4,       cpu_,   [this] { return &gpus_; },
                       limits_, clock_, metrics_};
};

TEST_F(DevicePlacesTest, TheProcessorNeedsNoGpu) {
  DevicePlaces none(4, cpu_, nullptr, {}, clock_, metrics_);
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

TEST_F(DevicePlacesTest, ResourcesAreOfEachDeviceOrOfAll) {
  const auto own = places_.Find(Taking({"cuda:0", "cuda:1"}, "slots", {2}));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->places[0].resources[0].name, "slots@cuda:0");
  EXPECT_NE(own->places[0].resources[0].turns,
            own->places[1].resources[0].turns);
  const auto shared =
      places_.Find(Taking({"cuda:0", "cuda:1"}, "lanes", {3, true}));
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->places[0].resources[0].name, "lanes");
  EXPECT_EQ(shared->places[0].resources[0].turns,
            shared->places[1].resources[0].turns);
  EXPECT_EQ(MetricValue(metrics_, "stoker_resource_units",
                        {{"resource", "slots@cuda:1"}}),
            2);
  // Nobody has said how much there is of it.
  const auto any = places_.Find(Taking({"cpu"}, "any", {70}));
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->places[0].resources[0].count, 70);
}

TEST_F(DevicePlacesTest, MoreOfAResourceThanThereIsIsRefused) {
  EXPECT_TRUE(places_.Find(Taking({"cuda:0"}, "slots", {4})).ok());
  EXPECT_EQ(Refusal(Taking({"cuda:1"}, "slots", {3})),
            "m:1: resources.slots: expected at most 2, which is what "
            "--rate-limit-resource gives as slots@cuda:1, got 3");
  EXPECT_THAT(Refusal(Taking({"cpu"}, "lanes", {4, true})),
              HasSubstr("gives as lanes, got 4"));
  ResourceLimits off = limits_;
  off.enforced = false;
  DevicePlaces free(4, cpu_, nullptr, off, clock_, metrics_);
  const auto placed = free.Find(Taking({"cpu"}, "slots", {9}));
  ASSERT_TRUE(placed.ok());
  EXPECT_TRUE(placed->places[0].resources.empty());
}

TEST_F(DevicePlacesTest, AResourceIsGlobalForAllModelsOrForNone) {
  const auto placed = places_.Find(Taking({"cpu"}, "slots", {1, true}));
  ASSERT_TRUE(placed.ok());
  {
    DeviceTurns::Client loaded(*placed->places[0].resources[0].turns, 1, 1);
    EXPECT_EQ(Refusal(Taking({"cpu"}, "slots", {1})),
              "m:1: resources.slots: expected one for all devices, as other "
              "models have it, got one on each device");
    loaded.Leave();
  }
  EXPECT_TRUE(places_.Find(Taking({"cpu"}, "slots", {1})).ok());
}

}  // namespace
}  // namespace stoker
