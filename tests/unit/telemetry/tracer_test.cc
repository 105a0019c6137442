#include "telemetry/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "metrics/metrics.h"
#include "otlp.pb.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/loopback_server.h"

namespace stoker {
namespace {

std::string Reply(int status, const std::string& body = "") {
  return absl::StrCat("HTTP/1.1 ", status,
                      " As it is\r\nContent-Length: ", body.size(), "\r\n\r\n",
                      body);
}

class TracerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tracer> Open() {
    absl::StatusOr<std::unique_ptr<Tracer>> tracer =
        Tracer::Open(options_, metrics_, clock_);
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    return *std::move(tracer);
  }
  double Counted(const char* outcome) const {
    return MetricValue(metrics_, "stoker_trace_records_total",
                       {{"outcome", outcome}});
  }
  // Lets the sender's pauses pass until so many records have come to that.
  void AwaitCount(const char* outcome, double count) {
    while (Counted(outcome) < count) clock_.Advance(absl::Milliseconds(100));
  }
  static otlp::ExportTraceServiceRequest Sent(const std::string& request) {
    otlp::ExportTraceServiceRequest message;
    EXPECT_TRUE(
        message.ParseFromString(request.substr(request.find("\r\n\r\n") + 4)));
    return message;
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  TraceOptions options_{.server_version = "1.2"};
};

TEST_F(TracerTest, SpansAreSentTogether) {
  LoopbackServer collector([](const std::string&) { return Reply(200); });
  options_.endpoint = collector.url();
  const auto tracer = Open();
  for (int i = 0; i < 3; ++i) tracer->Put(RequestRecord());
  tracer->Put(WorkRecord{.name = "load"});
  AwaitCount("sent", 4);
  ASSERT_EQ(collector.requests().size(), 1u);
  const auto message = Sent(collector.requests()[0]);
  ASSERT_EQ(message.resource_spans_size(), 1);
  EXPECT_EQ(
      message.resource_spans(0).resource().attributes(0).value().string_value(),
      "stokerd");
  EXPECT_EQ(message.resource_spans(0).scope_spans(0).spans_size(), 4);
}

TEST_F(TracerTest, WhoIsTraced) {
  options_.endpoint = "http://127.0.0.1:1";
  options_.sample = 0;
  options_.slow = absl::Milliseconds(10);
  const auto tracer = Open();
  const TraceParent yes{.trace = {1, 1}, .span = 1, .sampled = true};
  const TraceParent no{.trace = {1, 1}, .span = 1, .sampled = false};
  const absl::Duration quick = absl::Milliseconds(1);
  EXPECT_FALSE(tracer->Wants(quick, nullptr));
  EXPECT_TRUE(tracer->Wants(quick, &yes));
  EXPECT_FALSE(tracer->Wants(quick, &no));
  EXPECT_TRUE(tracer->Wants(absl::Milliseconds(10), nullptr));
  EXPECT_TRUE(tracer->Wants(absl::Milliseconds(10), &no));
}

TEST_F(TracerTest, TheClientsTraceDecidesBeforeTheSample) {
  options_.endpoint = "http://127.0.0.1:1";
  options_.sample = 1;
  const auto tracer = Open();
  const TraceParent no{.trace = {1, 1}, .span = 1, .sampled = false};
  EXPECT_TRUE(tracer->Wants(absl::ZeroDuration(), nullptr));
  EXPECT_FALSE(tracer->Wants(absl::ZeroDuration(), &no));
}

TEST_F(TracerTest, ACollectorThatIsBusyIsAskedAgain) {
  std::atomic<int> asked = 0;
  LoopbackServer collector([&asked](const std::string&) {
    return ++asked < 3 ? Reply(503) : Reply(200);
  });
  options_.endpoint = collector.url();
  const auto tracer = Open();
  tracer->Put(RequestRecord());
  AwaitCount("sent", 1);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(collector.requests()[0], collector.requests()[2]);
}

TEST_F(TracerTest, ACollectorThatRefusesIsNotAskedAgain) {
  LoopbackServer collector([](const std::string&) { return Reply(400); });
  options_.endpoint = collector.url();
  const auto tracer = Open();
  tracer->Put(RequestRecord());
  AwaitCount("failed", 1);
  EXPECT_EQ(collector.requests().size(), 1u);
}

TEST_F(TracerTest, WhatACollectorTakesInPart) {
  otlp::ExportTraceServiceResponse response;
  response.mutable_partial_success()->set_rejected_spans(1);
  LoopbackServer collector([&](const std::string&) {
    return Reply(200, response.SerializeAsString());
  });
  options_.endpoint = collector.url();
  const auto tracer = Open();
  tracer->Put(RequestRecord());
  AwaitCount("failed", 1);
}

// The queue fills, nobody waits, and the end comes.
TEST_F(TracerTest, ACollectorThatNeverAnswers) {
  LoopbackServer collector([](const std::string&) { return ""; });
  options_.endpoint = collector.url();
  auto tracer = Open();
  tracer->Put(RequestRecord());
  while (collector.requests().empty()) clock_.Advance(absl::Milliseconds(100));
  for (size_t i = 0; i < Tracer::kQueued + 5; ++i) {
    tracer->Put(RequestRecord());
  }
  EXPECT_EQ(Counted("queue_full"), 5);
  Thread end("end", [&] { tracer.reset(); });
  AwaitCount("failed", 1 + static_cast<double>(Tracer::kQueued));
  end.Join();
  EXPECT_EQ(Counted("sent"), 0);
}

TEST_F(TracerTest, NobodyThere) {
  {
    LoopbackServer collector([](const std::string&) { return ""; });
    options_.endpoint = collector.url();
  }
  const auto tracer = Open();
  tracer->Put(RequestRecord());
  AwaitCount("failed", 1);
}

TEST_F(TracerTest, AnEndpointThatIsNone) {
  options_.endpoint = "https://collector";
  EXPECT_EQ(Tracer::Open(options_, metrics_, clock_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stoker
