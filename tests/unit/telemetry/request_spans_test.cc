#include "telemetry/request_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/unit/telemetry/answered_record.h"

namespace stoker {
namespace {

using ::testing::UnorderedElementsAre;

const absl::Time kArrived = absl::FromUnixMillis(1'700'000'000'000);

RequestRecord Answered(uint64_t batch) {
  return AnsweredRecord(kArrived, batch);
}

std::vector<std::string> Names(const otlp::ScopeSpans& spans) {
  std::vector<std::string> names;
  for (const otlp::Span& span : spans.spans()) names.push_back(span.name());
  return names;
}
const otlp::Span& Find(const otlp::ScopeSpans& spans, const std::string& name,
                       int which = 0) {
  for (const otlp::Span& span : spans.spans()) {
    if (span.name() == name && which-- == 0) return span;
  }
  static const otlp::Span nothing;
  ADD_FAILURE() << "no span " << name;
  return nothing;
}
// Microseconds since the arrival.
std::pair<int64_t, int64_t> Times(const otlp::Span& span) {
  const auto arrived = static_cast<uint64_t>(absl::ToUnixNanos(kArrived));
  return {static_cast<int64_t>(span.start_time_unix_nano() - arrived) / 1000,
          static_cast<int64_t>(span.end_time_unix_nano() - arrived) / 1000};
}
std::string Text(const otlp::Span& span, const std::string& key) {
  for (const otlp::KeyValue& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().string_value();
  }
  return "none";
}
int64_t Number(const otlp::Span& span, const std::string& key) {
  for (const otlp::KeyValue& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().int_value();
  }
  return -1;
}

constexpr char kCall[] = "inference.GRPCInferenceService/ModelInfer";

TEST(RequestSpansTest, ARequestAndItsBatch) {
  SpanMaker maker;
  otlp::ScopeSpans spans;
  maker.AddRequests({Answered(7)}, spans);
  EXPECT_THAT(Names(spans),
              UnorderedElementsAre(kCall, "decode", "queue", "run", "answer",
                                   "batch", "assemble", "run", "split"));
  const otlp::Span& request = Find(spans, kCall);
  EXPECT_EQ(request.kind(), otlp::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(request.trace_id().size(), 16u);
  EXPECT_EQ(request.span_id().size(), 8u);
  EXPECT_EQ(request.parent_span_id(), "");
  EXPECT_EQ(Times(request), (std::pair<int64_t, int64_t>{0, 700}));
  EXPECT_EQ(Text(request, "stoker.bucket"), "batch=8");
  EXPECT_EQ(Text(request, "stoker.tier"), "aot");
  EXPECT_EQ(Number(request, "stoker.version"), 2);
  EXPECT_EQ(Number(request, "rpc.grpc.status_code"), 0);

  // Without a gap but the one before the run, where it waited for its turn.
  const std::map<std::string, std::pair<int64_t, int64_t>> expected = {
      {"decode", {0, 50}},
      {"queue", {50, 150}},
      {"run", {160, 675}},
      {"answer", {675, 700}}};
  for (const auto& [name, times] : expected) {
    const otlp::Span& child = Find(spans, name);
    EXPECT_EQ(Times(child), times) << name;
    EXPECT_EQ(child.trace_id(), request.trace_id()) << name;
    EXPECT_EQ(child.parent_span_id(), request.span_id()) << name;
  }

  const otlp::Span& batch = Find(spans, "batch");
  const otlp::Span& run = Find(spans, "run");
  EXPECT_EQ(Times(batch), (std::pair<int64_t, int64_t>{160, 675}));
  EXPECT_EQ(Number(batch, "stoker.batch_rows"), 6);
  ASSERT_EQ(batch.links_size(), 1);
  EXPECT_EQ(batch.links(0).trace_id(), request.trace_id());
  EXPECT_EQ(batch.links(0).span_id(), run.span_id());
  ASSERT_EQ(run.links_size(), 1);
  EXPECT_EQ(run.links(0).trace_id(), batch.trace_id());
  EXPECT_EQ(run.links(0).span_id(), batch.span_id());
  EXPECT_NE(batch.trace_id(), request.trace_id());
  EXPECT_EQ(Times(Find(spans, "run", 1)),
            (std::pair<int64_t, int64_t>{170, 670}));
}

TEST(RequestSpansTest, ABatchHasOneSpan) {
  SpanMaker maker;
  otlp::ScopeSpans spans;
  maker.AddRequests({Answered(7), Answered(8), Answered(7)}, spans);
  const otlp::Span& first = Find(spans, "batch", 0);
  const otlp::Span& second = Find(spans, "batch", 1);
  EXPECT_EQ(first.links_size() + second.links_size(), 3);
  EXPECT_NE(first.trace_id(), second.trace_id());

  // Of what comes later, only the request is new.
  otlp::ScopeSpans later;
  maker.AddRequests({Answered(7)}, later);
  EXPECT_THAT(Names(later),
              UnorderedElementsAre(kCall, "decode", "queue", "run", "answer"));
  EXPECT_THAT((std::vector{first.span_id(), second.span_id()}),
              ::testing::Contains(Find(later, "run").links(0).span_id()));
}

TEST(RequestSpansTest, AClientsTraceGoesOn) {
  SpanMaker maker;
  RequestRecord record = Answered(1);
  record.parent = {.trace = {1, 2}, .span = 3, .sampled = true};
  otlp::ScopeSpans spans;
  maker.AddRequests({record}, spans);
  const otlp::Span& request = Find(spans, kCall);
  const std::string zeros(7, '\0');
  EXPECT_EQ(request.trace_id(), zeros + "\1" + zeros + "\2");
  EXPECT_EQ(request.parent_span_id(), zeros + "\3");
}

TEST(RequestSpansTest, StepsOfAPipeline) {
  SpanMaker maker;
  RequestRecord record = Answered(1);
  record.tier = "pipeline";
  record.steps = {{.name = "tokenizer",
                   .tier = "tokenizer",
                   .after = absl::Microseconds(10),
                   .total = absl::Microseconds(5)},
                  {.name = "encoder",
                   .tier = "aot",
                   .after = absl::Microseconds(15),
                   .total = absl::Microseconds(50),
                   .queue = absl::Microseconds(20),
                   .run = absl::Microseconds(30),
                   .batch = 7}};
  otlp::ScopeSpans spans;
  maker.AddRequests({record}, spans);
  ASSERT_EQ(spans.spans_size(), 3);
  const otlp::Span& encoder = spans.spans(2);
  EXPECT_EQ(encoder.name(), "step");
  EXPECT_EQ(encoder.parent_span_id(), Find(spans, kCall).span_id());
  EXPECT_EQ(Text(encoder, "stoker.step"), "encoder");
  EXPECT_EQ(Number(encoder, "stoker.queue_us"), 20);
  EXPECT_EQ(encoder.links_size(), 1);
  EXPECT_EQ(spans.spans(1).links_size(), 0);
}

TEST(RequestSpansTest, WhatDidNotRun) {
  SpanMaker maker;
  RequestRecord record;
  record.protocol = "http";
  record.model = "nobody";
  record.status = absl::StatusCode::kNotFound;
  record.error = "it isn't there";
  record.arrived = kArrived;
  otlp::ScopeSpans spans;
  maker.AddRequests({record}, spans);
  ASSERT_THAT(Names(spans),
              UnorderedElementsAre("POST /v2/models/{model}/infer"));
  // The client is to blame.
  EXPECT_EQ(spans.spans(0).status().code(), otlp::Status::STATUS_CODE_UNSET);
  EXPECT_EQ(Number(spans.spans(0), "rpc.grpc.status_code"), 5);

  record.status = absl::StatusCode::kUnavailable;
  spans.Clear();
  maker.AddRequests({record}, spans);
  EXPECT_EQ(spans.spans(0).status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(spans.spans(0).status().message(), record.error);
}

TEST(RequestSpansTest, Work) {
  SpanMaker maker;
  otlp::ScopeSpans spans;
  maker.AddWork({.name = "compile",
                 .model = "minilm",
                 .version = 2,
                 .bucket = "batch=8",
                 .began = kArrived,
                 .took = absl::Milliseconds(2),
                 .error = "no memory"},
                spans);
  const otlp::Span& compile = Find(spans, "compile");
  EXPECT_EQ(Times(compile), (std::pair<int64_t, int64_t>{0, 2000}));
  EXPECT_EQ(Text(compile, "stoker.bucket"), "batch=8");
  EXPECT_EQ(compile.status().message(), "no memory");
}

}  // namespace
}  // namespace stoker
