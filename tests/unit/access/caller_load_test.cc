#include "access/caller_load.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

using Refusal = CallerLoad::Refusal;

class CallerLoadTest : public ::testing::Test {
 protected:
  Refusal Enter() {
    CallerPass pass;
    const Refusal refusal = load_->Enter(clock_.Now(), pass, retry_after_);
    if (refusal == Refusal::kNone) passes_.push_back(std::move(pass));
    return refusal;
  }

  FakeClock clock_;
  const std::shared_ptr<CallerLoad> load_ = std::make_shared<CallerLoad>();
  std::vector<CallerPass> passes_;
  absl::Duration retry_after_;
};

TEST_F(CallerLoadTest, ABurstAndThenTheRate) {
  load_->Limit({.requests_per_second = 4, .burst = 2});
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kRate);
  EXPECT_EQ(retry_after_, absl::Milliseconds(250));
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(Enter(), Refusal::kRate);
  EXPECT_EQ(retry_after_, absl::Milliseconds(150));
  clock_.Advance(absl::Milliseconds(150));
  EXPECT_EQ(Enter(), Refusal::kNone);
  // Whoever waits for longer finds no more than a burst.
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kRate);
}

// The time of day is set by whoever likes to.
TEST_F(CallerLoadTest, TheTimeOfDayChangesNothing) {
  load_->Limit({.requests_per_second = 1, .burst = 1});
  EXPECT_EQ(Enter(), Refusal::kNone);
  clock_.StepWall(absl::Hours(24));
  EXPECT_EQ(Enter(), Refusal::kRate);
  clock_.StepWall(-absl::Hours(48));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Enter(), Refusal::kNone);
}

TEST_F(CallerLoadTest, SoManyAtATime) {
  load_->Limit({.concurrent = 2});
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kConcurrent);
  EXPECT_GT(retry_after_, absl::ZeroDuration());
  passes_.pop_back();
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kConcurrent);
  passes_.clear();
  EXPECT_EQ(Enter(), Refusal::kNone);
}

// What is refused for one limit is not taken of the other.
TEST_F(CallerLoadTest, WhatIsRefusedCostsNothing) {
  load_->Limit({.requests_per_second = 1, .burst = 2, .concurrent = 1});
  EXPECT_EQ(Enter(), Refusal::kNone);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Enter(), Refusal::kConcurrent);
  passes_.clear();
  EXPECT_EQ(Enter(), Refusal::kNone);
  passes_.clear();
  EXPECT_EQ(Enter(), Refusal::kRate);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Enter(), Refusal::kNone);
}

TEST_F(CallerLoadTest, LimitsThatChange) {
  load_->Limit({.requests_per_second = 1, .burst = 2, .concurrent = 3});
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kNone);
  // The same rate goes on.
  load_->Limit({.requests_per_second = 1, .burst = 2, .concurrent = 9});
  EXPECT_EQ(Enter(), Refusal::kRate);
  load_->Limit({.concurrent = 2});
  EXPECT_EQ(Enter(), Refusal::kConcurrent);
  load_->Limit({});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Enter(), Refusal::kNone);
}

TEST_F(CallerLoadTest, APassMayBeUsedAgain) {
  load_->Limit({.concurrent = 2});
  CallerPass pass;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(load_->Enter(clock_.Now(), pass, retry_after_), Refusal::kNone);
  }
  EXPECT_EQ(Enter(), Refusal::kNone);
  EXPECT_EQ(Enter(), Refusal::kConcurrent);
}

TEST_F(CallerLoadTest, APassMayMove) {
  load_->Limit({.concurrent = 1});
  CallerPass pass;
  EXPECT_EQ(load_->Enter(clock_.Now(), pass, retry_after_), Refusal::kNone);
  {
    const CallerPass moved = std::move(pass);
    EXPECT_EQ(Enter(), Refusal::kConcurrent);
  }
  EXPECT_EQ(Enter(), Refusal::kNone);
}

// For ThreadSanitizer.
TEST_F(CallerLoadTest, Threads) {
  load_->Limit({.concurrent = 3});
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int turn = 0; turn < 1'000; ++turn) {
        CallerPass pass;
        absl::Duration retry_after;
        load_->Enter(clock_.Now(), pass, retry_after);
      }
    });
  }
  for (int i = 0; i < 100; ++i) load_->Limit({.concurrent = 2 + i % 2});
  for (std::thread& thread : threads) thread.join();
  load_->Limit({.concurrent = 1});
  EXPECT_EQ(Enter(), Refusal::kNone);
}

}  // namespace
}  // namespace stoker
