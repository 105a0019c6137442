#include "telemetry/request_spans.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/utf8.h"
#include "telemetry/sampler.h"

namespace stoker {
namespace {

constexpr size_t kRemembered = 4096;

std::string Bytes(uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift & 0xff));
  }
  return bytes;
}
std::string Bytes(const TraceId& trace) {
  return Bytes(trace.high) + Bytes(trace.low);
}

// Never zero, which stands for none.
uint64_t NewId() { return RandomBits() | 1; }
TraceId NewTrace() { return {RandomBits(), NewId()}; }

void Set(otlp::Span& span, const char* key, std::string_view value) {
  if (value.empty()) return;
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(ValidUtf8(value));
}
void Set(otlp::Span& span, const char* key, int64_t value) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_int_value(value);
}

otlp::Span& NewSpan(const char* name, const TraceId& trace, absl::Time start,
                    absl::Duration took, otlp::ScopeSpans& spans) {
  otlp::Span& span = *spans.add_spans();
  span.set_trace_id(Bytes(trace));
  span.set_span_id(Bytes(NewId()));
  span.set_name(name);
  span.set_kind(otlp::Span::SPAN_KIND_INTERNAL);
  const int64_t from = absl::ToUnixNanos(start);
  span.set_start_time_unix_nano(static_cast<uint64_t>(from));
  span.set_end_time_unix_nano(
      static_cast<uint64_t>(from + absl::ToInt64Nanoseconds(took)));
  return span;
}

void SetWhatRan(const RequestRecord& record, otlp::Span& span) {
  Set(span, "stoker.model", record.model);
  if (record.version > 0) Set(span, "stoker.version", record.version);
  if (record.tier.empty()) return;
  Set(span, "stoker.bucket", record.bucket.empty() ? "none" : record.bucket);
  Set(span, "stoker.tier", record.tier);
  Set(span, "stoker.batch_rows", record.batch_rows);
}

// By gRPC's conventions: what the server is to blame for.
bool IsServersFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

void SetCall(const RequestRecord& record, otlp::Span& span) {
  span.set_kind(otlp::Span::SPAN_KIND_SERVER);
  if (record.protocol == "http") {
    span.set_name("POST /v2/models/{model}/infer");
    Set(span, "http.request.method", "POST");
    Set(span, "http.route", "/v2/models/{model}/infer");
  } else {
    const bool stream = record.protocol == "stream";
    span.set_name(stream ? "inference.GRPCInferenceService/ModelStreamInfer"
                         : "inference.GRPCInferenceService/ModelInfer");
    Set(span, "rpc.system", "grpc");
    Set(span, "rpc.service", "inference.GRPCInferenceService");
    Set(span, "rpc.method", stream ? "ModelStreamInfer" : "ModelInfer");
  }
  Set(span, "rpc.grpc.status_code", static_cast<int64_t>(record.status));
  Set(span, "client.address", record.peer);
  Set(span, "enduser.id", record.caller);
  Set(span, "stoker.request_id", record.id);
  Set(span, "stoker.rows", record.rows);
  Set(span, "stoker.bytes_in", static_cast<int64_t>(record.bytes_in));
  Set(span, "stoker.bytes_out", static_cast<int64_t>(record.bytes_out));
  if (!IsServersFault(record.status)) return;
  span.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  span.mutable_status()->set_message(ValidUtf8(record.error));
}

absl::Duration RunTime(const RequestRecord& record) {
  return record.assemble + record.run + record.split;
}

void AddLink(const TraceId& trace, uint64_t span,
             google::protobuf::RepeatedPtrField<otlp::Span::Link>& links) {
  otlp::Span::Link& link = *links.Add();
  link.set_trace_id(Bytes(trace));
  link.set_span_id(Bytes(span));
}

// SplitMix64's last step.
uint64_t Mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

}  // namespace

SpanMaker::SpanMaker() : seed_(RandomBits()) {}

SpanMaker::BatchIds SpanMaker::IdsOf(uint64_t batch) const {
  const uint64_t first = seed_ + batch * 4;
  return {{Mixed(first), Mixed(first + 1) | 1}, Mixed(first + 2) | 1};
}

bool SpanMaker::IsNewBatch(uint64_t batch) {
  if (older_.contains(batch) || !recent_.insert(batch).second) return false;
  if (recent_.size() >= kRemembered) {
    older_.swap(recent_);
    recent_.clear();
  }
  return true;
}

uint64_t SpanMaker::AddRequest(const RequestRecord& record,
                               const TraceId& trace,
                               otlp::ScopeSpans& spans) const {
  otlp::Span& request = NewSpan("", trace, record.arrived, record.total, spans);
  const std::string parent = request.span_id();
  if (record.parent.has_value()) {
    request.set_parent_span_id(Bytes(record.parent->span));
  }
  SetCall(record, request);
  SetWhatRan(record, request);
  if (record.tier.empty()) return 0;
  const auto child = [&](const char* name, absl::Duration after,
                         absl::Duration took) -> otlp::Span& {
    otlp::Span& span =
        NewSpan(name, trace, record.arrived + after, took, spans);
    span.set_parent_span_id(parent);
    return span;
  };
  if (!record.steps.empty()) {
    // Each in a batch of its own model.
    for (const RequestRecord::Step& step : record.steps) {
      otlp::Span& span = child("step", step.after, step.total);
      Set(span, "stoker.step", step.name);
      Set(span, "stoker.tier", step.tier);
      Set(span, "stoker.queue_us", absl::ToInt64Microseconds(step.queue));
      Set(span, "stoker.run_us", absl::ToInt64Microseconds(step.run));
      if (step.batch == 0) continue;
      const BatchIds batch = IdsOf(step.batch);
      AddLink(batch.trace, batch.span, *span.mutable_links());
    }
    return 0;
  }
  const absl::Duration enqueued = record.dequeued - record.queue;
  child("decode", absl::ZeroDuration(), enqueued);
  child("queue", enqueued, record.queue);
  const uint64_t id = NewId();
  otlp::Span& run = child("run", record.begun, RunTime(record));
  run.set_span_id(Bytes(id));
  SetWhatRan(record, run);
  const BatchIds batch = IdsOf(record.batch);
  AddLink(batch.trace, batch.span, *run.mutable_links());
  const absl::Duration done = record.begun + RunTime(record);
  child("answer", done, record.total - done);
  return id;
}

void SpanMaker::AddBatch(
    const RequestRecord& record,
    const google::protobuf::RepeatedPtrField<otlp::Span::Link>& links,
    otlp::ScopeSpans& spans) const {
  const BatchIds ids = IdsOf(record.batch);
  const absl::Time begin = record.arrived + record.begun;
  otlp::Span& batch =
      NewSpan("batch", ids.trace, begin, RunTime(record), spans);
  batch.set_span_id(Bytes(ids.span));
  *batch.mutable_links() = links;
  SetWhatRan(record, batch);
  Set(batch, "stoker.device_thread", int64_t{record.thread});
  absl::Time at = begin;
  for (const auto& [name, took] :
       {std::pair{"assemble", record.assemble}, std::pair{"run", record.run},
        std::pair{"split", record.split}}) {
    NewSpan(name, ids.trace, at, took, spans)
        .set_parent_span_id(Bytes(ids.span));
    at += took;
  }
}

void SpanMaker::AddRequests(absl::Span<const RequestRecord> records,
                            otlp::ScopeSpans& spans) {
  using Links = google::protobuf::RepeatedPtrField<otlp::Span::Link>;
  absl::flat_hash_map<uint64_t, std::pair<const RequestRecord*, Links>> batches;
  for (const RequestRecord& record : records) {
    const TraceId trace =
        record.parent.has_value() ? record.parent->trace : NewTrace();
    const uint64_t run = AddRequest(record, trace, spans);
    if (run == 0) continue;
    auto& [first, links] = batches[record.batch];
    if (first == nullptr) first = &record;
    AddLink(trace, run, links);
  }
  for (const auto& [number, batch] : batches) {
    if (IsNewBatch(number)) AddBatch(*batch.first, batch.second, spans);
  }
}

void SpanMaker::AddWork(const WorkRecord& record,
                        otlp::ScopeSpans& spans) const {
  otlp::Span& span = NewSpan(record.name.c_str(), NewTrace(), record.began,
                             record.took, spans);
  Set(span, "stoker.model", record.model);
  if (record.version > 0) Set(span, "stoker.version", record.version);
  Set(span, "stoker.bucket", record.bucket);
  if (record.error.empty()) return;
  span.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  span.mutable_status()->set_message(ValidUtf8(record.error));
}

}  // namespace stoker
