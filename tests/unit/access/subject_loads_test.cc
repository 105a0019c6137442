#include "access/subject_loads.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "metrics/catalog.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

using Refusal = CallerLoad::Refusal;

class SubjectLoadsTest : public ::testing::Test {
 protected:
  Refusal Enter(const std::string& subject) {
    CallerPass pass;
    const Refusal refusal =
        loads_.Of(HashToken(subject))->Enter(clock_.Now(), pass, retry_after_);
    if (refusal == Refusal::kNone) passes_.push_back(std::move(pass));
    return refusal;
  }
  double Forgotten() {
    return MetricValue(metrics_, "stoker_access_subjects_forgotten_total");
  }

  MetricRegistry metrics_;
  SubjectLoads loads_{
      metrics_.Counter(metric::kSubjectsForgotten, {{"caller", "ml"}}), 3};
  FakeClock clock_;
  std::vector<CallerPass> passes_;
  absl::Duration retry_after_;
};

TEST_F(SubjectLoadsTest, EachHasItsOwn) {
  loads_.Limit({.requests_per_second = 2, .burst = 1});
  EXPECT_EQ(Enter("alice"), Refusal::kNone);
  EXPECT_EQ(Enter("alice"), Refusal::kRate);
  EXPECT_EQ(retry_after_, absl::Milliseconds(500));
  EXPECT_EQ(Enter("bob"), Refusal::kNone);
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_EQ(Enter("alice"), Refusal::kNone);
  EXPECT_EQ(Enter("bob"), Refusal::kNone);
}

TEST_F(SubjectLoadsTest, OtherLimitsHoldAtOnceAndWhatIsUnderWayStays) {
  loads_.Limit({.concurrent = 1});
  EXPECT_EQ(Enter("alice"), Refusal::kNone);
  EXPECT_EQ(Enter("alice"), Refusal::kConcurrent);
  loads_.Limit({.concurrent = 2});
  EXPECT_EQ(Enter("alice"), Refusal::kNone);
  EXPECT_EQ(Enter("alice"), Refusal::kConcurrent);
}

TEST_F(SubjectLoadsTest, WhoHasNotAskedForLongestMakesRoom) {
  loads_.Limit({.requests_per_second = 1, .burst = 1});
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(Enter(name), Refusal::kNone);
  passes_.clear();
  EXPECT_EQ(Enter("a"), Refusal::kRate);  // asks, and is the last
  EXPECT_EQ(Forgotten(), 0);
  EXPECT_EQ(Enter("d"), Refusal::kNone);
  EXPECT_EQ(loads_.size(), 3u);
  EXPECT_EQ(Forgotten(), 1);
  EXPECT_EQ(Enter("a"), Refusal::kRate);
  EXPECT_EQ(Enter("c"), Refusal::kRate);
  passes_.clear();
  EXPECT_EQ(Enter("b"), Refusal::kNone);  // was forgotten
}

TEST_F(SubjectLoadsTest, NotWhileRequestsAreUnderWay) {
  loads_.Limit({.concurrent = 1});
  EXPECT_EQ(Enter("a"), Refusal::kNone);
  EXPECT_EQ(Enter("b"), Refusal::kNone);
  EXPECT_EQ(Enter("c"), Refusal::kNone);
  EXPECT_EQ(Enter("d"), Refusal::kNone);
  EXPECT_EQ(loads_.size(), 4u);
  EXPECT_EQ(Enter("a"), Refusal::kConcurrent);
  EXPECT_EQ(Forgotten(), 0);
  passes_.clear();
  EXPECT_EQ(Enter("e"), Refusal::kNone);
  EXPECT_EQ(loads_.size(), 3u);
  EXPECT_EQ(Forgotten(), 2);
}

// However many come, so many are kept.
TEST_F(SubjectLoadsTest, AFlood) {
  loads_.Limit({.requests_per_second = 1, .burst = 1, .concurrent = 1});
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(Enter(absl::StrCat("subject-", i)), Refusal::kNone);
    passes_.clear();
  }
  EXPECT_EQ(loads_.size(), 3u);
  EXPECT_EQ(Forgotten(), 9'997);
}

}  // namespace
}  // namespace stoker
