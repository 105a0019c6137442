#include "loadtest/generator/recorder.h"

#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

constexpr int64_t kMs = 1'000'000;

// Measured from 1000 to 3000 ms in two windows, 50 ms are good enough.
Measurement Plan(bool open) {
  return {1000 * kMs, 3000 * kMs, 1000 * kMs, 50 * kMs, open};
}

Outcome Answer(int64_t due_ms, int64_t sent_ms, int64_t done_ms) {
  return {due_ms * kMs, sent_ms * kMs, done_ms * kMs};
}

TEST(RecorderTest, AnOpenLoopCountsByWhenRequestsWereDue) {
  Recorder recorder(Plan(true));
  recorder.Record(Answer(990, 990, 1010));  // warm-up
  recorder.Record(Answer(1000, 1000, 1010));
  recorder.Record(Answer(2990, 2990, 3500));  // answered after the end
  recorder.Record(Answer(3000, 3000, 3010));  // too late
  const Recording& recording = recorder.recording();
  EXPECT_EQ(recording.total, 4);
  EXPECT_EQ(recording.measured, 2);
  EXPECT_EQ(recording.latency.max(), 510 * kMs);
  EXPECT_EQ(recording.within_slo, 1);
}

TEST(RecorderTest, AClosedLoopCountsByWhenRequestsEnded) {
  Recorder recorder(Plan(false));
  recorder.Record(Answer(990, 990, 1010));
  recorder.Record(Answer(1000, 1000, 1010));
  recorder.Record(Answer(2990, 2990, 3000));
  EXPECT_EQ(recorder.recording().measured, 2);
}

TEST(RecorderTest, ALateSenderIsNotForgotten) {
  Recorder recorder(Plan(true));
  recorder.Record(Answer(1500, 1700, 1710));
  const Recording& recording = recorder.recording();
  EXPECT_EQ(recording.latency.max(), 210 * kMs);
  EXPECT_EQ(recording.service.max(), 10 * kMs);
  EXPECT_EQ(recording.lag.max(), 200 * kMs);
  EXPECT_EQ(recording.within_slo, 0);
}

TEST(RecorderTest, WindowsCountAnswersByWhenTheyCame) {
  Recorder recorder(Plan(true));
  recorder.Record(Answer(900, 900, 1500));
  recorder.Record(Answer(1900, 1900, 2100));
  recorder.Record(Answer(2000, 2000, 2999));
  recorder.Record(Answer(2000, 2000, 3000));
  const auto& windows = recorder.recording().windows;
  ASSERT_EQ(windows.size(), 2);
  EXPECT_EQ(windows[0].ok, 1);
  EXPECT_EQ(windows[0].latency_sum_ns, 600 * kMs);
  EXPECT_EQ(windows[1].ok, 2);
  EXPECT_EQ(windows[1].latency_max_ns, 999 * kMs);
}

TEST(RecorderTest, KeepsErrorsApartByCode) {
  Recorder recorder(Plan(true));
  Outcome refused = Answer(1100, 1100, 1103);
  refused.code = grpc::StatusCode::UNAVAILABLE;
  refused.message = "queue full";
  refused.retry_hint = true;
  recorder.Record(refused);
  refused.message = "queue still full";
  refused.retry_hint = false;
  recorder.Record(refused);
  recorder.Record(Answer(1100, 1100, 1200));
  const Recording& recording = recorder.recording();
  EXPECT_EQ(recording.measured, 3);
  EXPECT_EQ(recording.measured_ok, 1);
  EXPECT_EQ(recording.latency.count(), 1);
  const auto& errors = recording.errors.at(grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(errors.count, 2);
  EXPECT_EQ(errors.with_retry_hint, 1);
  EXPECT_EQ(errors.example, "queue full");
  EXPECT_EQ(errors.latency.max(), 3 * kMs);
  EXPECT_EQ(recording.windows[0].failed, 2);
}

TEST(RecorderTest, AddsUpOverThreads) {
  Recorder left(Plan(true)), right(Plan(true));
  left.Record(Answer(1100, 1100, 1110));
  right.Record(Answer(1100, 1100, 2110));
  Outcome failed = Answer(1200, 1200, 1201);
  failed.code = grpc::StatusCode::INTERNAL;
  right.Record(failed);
  Recording sum;
  sum.Add(left.recording());
  sum.Add(right.recording());
  EXPECT_EQ(sum.total, 3);
  EXPECT_EQ(sum.total_ok, 2);
  EXPECT_EQ(sum.windows[0].ok, 1);
  EXPECT_EQ(sum.windows[1].ok, 1);
  EXPECT_EQ(sum.errors.at(grpc::StatusCode::INTERNAL).count, 1);
  EXPECT_EQ(sum.latency.count(), 2);
}

TEST(RecorderTest, NamesCodes) {
  EXPECT_EQ(CodeName(grpc::StatusCode::OK), "OK");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAVAILABLE), "UNAVAILABLE");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(static_cast<grpc::StatusCode>(77)), "code 77");
}

}  // namespace
}  // namespace stoker::loadtest
