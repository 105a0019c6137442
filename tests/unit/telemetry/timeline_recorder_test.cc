#include "telemetry/timeline_recorder.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

TEST(TimelineRecorderTest, WhatIsToldMeanwhile) {
  FakeClock clock;
  TimelineRecorder recorder(clock);
  EXPECT_FALSE(recorder.records());
  recorder.Put(RequestRecord());  // before
  ASSERT_TRUE(recorder.Begin());
  EXPECT_TRUE(recorder.records());
  const absl::Time began = clock.WallNow();
  recorder.Put(RequestRecord{.id = "a"});
  recorder.Put(WorkRecord{.name = "load"});
  clock.Advance(absl::Seconds(2));
  const Recording recording = recorder.End();
  EXPECT_FALSE(recorder.records());
  recorder.Put(RequestRecord());  // after
  EXPECT_EQ(recording.began, began);
  EXPECT_EQ(recording.took, absl::Seconds(2));
  ASSERT_EQ(recording.requests.size(), 1u);
  EXPECT_EQ(recording.requests[0].id, "a");
  EXPECT_EQ(recording.work.size(), 1u);
}

TEST(TimelineRecorderTest, OneAtATime) {
  FakeClock clock;
  TimelineRecorder recorder(clock);
  ASSERT_TRUE(recorder.Begin());
  EXPECT_FALSE(recorder.Begin());
  recorder.End();
  EXPECT_TRUE(recorder.Begin());
  EXPECT_TRUE(recorder.End().requests.empty());
}

TEST(TimelineRecorderTest, ThereIsAnEndToIt) {
  FakeClock clock;
  TimelineRecorder recorder(clock);
  ASSERT_TRUE(recorder.Begin());
  for (size_t i = 0; i < TimelineRecorder::kMostRequests + 3; ++i) {
    recorder.Put(RequestRecord());
  }
  const Recording recording = recorder.End();
  EXPECT_EQ(recording.requests.size(), TimelineRecorder::kMostRequests);
  EXPECT_EQ(recording.left_out, 3u);
}

}  // namespace
}  // namespace stoker
