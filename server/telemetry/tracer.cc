#include "telemetry/tracer.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "otlp.pb.h"
#include "telemetry/request_spans.h"

namespace stoker {
namespace {

// Spans are sent together: this long after the first of them came.
constexpr absl::Duration kSendLinger = absl::Seconds(1);
constexpr size_t kMostTogether = 512;

constexpr absl::Duration kReplyLimit = absl::Seconds(10);
// A collector that is started again is back within that.
constexpr int kTries = 5;
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kSenderPatience = absl::Seconds(1);

Counter RecordsBy(MetricRegistry& metrics, const char* outcome) {
  return metrics.Counter(metric::kTraceRecords, {{"outcome", outcome}});
}

// The protocol's: whether the same may be sent again.
bool MayPass(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

void Set(otlp::Resource& resource, const char* key, const std::string& value) {
  otlp::KeyValue& attribute = *resource.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(value);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Open(
    const TraceOptions& options, MetricRegistry& metrics, Clock& clock) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(options.endpoint, kPort, kPath));
  log::Info("traces go to {}", url.shown());
  return std::unique_ptr<Tracer>(
      new Tracer(options, std::move(url), metrics, clock));
}

Tracer::Tracer(const TraceOptions& options, HttpUrl url,
               MetricRegistry& metrics, Clock& clock)
    : options_(options),
      url_(std::move(url)),
      sampler_(options.sample),
      sent_(RecordsBy(metrics, "sent")),
      full_(RecordsBy(metrics, "queue_full")),
      failed_(RecordsBy(metrics, "failed")),
      queue_(kQueued, kSendLinger, clock),
      spans_(std::make_unique<SpanMaker>()),
      sender_("tracer", [this] { SendLoop(); }) {}

Tracer::~Tracer() { queue_.Close(kSenderPatience); }

bool Tracer::Wants(absl::Duration total, const TraceParent* parent) const {
  if (!on_.load(std::memory_order_relaxed)) return false;
  if (options_.slow > absl::ZeroDuration() && total >= options_.slow) {
    return true;
  }
  return parent != nullptr ? parent->sampled : sampler_.Draw();
}

void Tracer::Change(const TraceSettings& settings) {
  on_ = settings.on;
  sampler_.Set(settings.sample);
}

void Tracer::PutAny(Record record) {
  if (!queue_.Put(std::move(record))) full_.Add();
}

void Tracer::Put(RequestRecord record) { PutAny(std::move(record)); }

void Tracer::Put(WorkRecord record) { PutAny(std::move(record)); }

void Tracer::SendLoop() {
  for (;;) {
    std::vector<Record> records = queue_.Take();
    if (records.empty()) return;
    for (size_t begin = 0; begin < records.size(); begin += kMostTogether) {
      const size_t end = std::min(begin + kMostTogether, records.size());
      std::vector<Record> some(
          std::make_move_iterator(records.begin() +
                                  static_cast<std::ptrdiff_t>(begin)),
          std::make_move_iterator(records.begin() +
                                  static_cast<std::ptrdiff_t>(end)));
      Send(some);
    }
  }
}

std::string Tracer::Message(std::vector<Record>& records) {
  otlp::ExportTraceServiceRequest message;
  otlp::ResourceSpans& process = *message.add_resource_spans();
  Set(*process.mutable_resource(), "service.name", "stokerd");
  Set(*process.mutable_resource(), "service.version", options_.server_version);
  Set(*process.mutable_resource(), "host.name", HostName());
  Set(*process.mutable_resource(), "process.pid", absl::StrCat(getpid()));
  otlp::ScopeSpans& spans = *process.add_scope_spans();
  spans.mutable_scope()->set_name("stoker");
  std::vector<RequestRecord> requests;
  for (Record& record : records) {
    if (auto* const request = std::get_if<RequestRecord>(&record)) {
      requests.push_back(std::move(*request));
    } else {
      spans_->AddWork(std::get<WorkRecord>(record), spans);
    }
  }
  spans_->AddRequests(requests, spans);
  return message.SerializeAsString();
}

absl::Status Tracer::Deliver(const std::string& message) {
  absl::Duration pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    const absl::StatusOr<HttpReply> reply =
        HttpPost(url_, "application/x-protobuf", message, kReplyLimit,
                 [this] { return queue_.HasEnded(); });
    absl::Status status = reply.status();
    if (reply.ok() && reply->status >= 200 && reply->status < 300) {
      otlp::ExportTraceServiceResponse response;
      const bool read = response.ParseFromString(reply->body);
      const int64_t rejected = response.partial_success().rejected_spans();
      if (!read || rejected == 0) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("it refused ", rejected, " spans"));
    }
    if (reply.ok()) {
      status = absl::UnavailableError(
          absl::StrCat("it answered with status ", reply->status));
      if (!MayPass(reply->status)) return status;
    }
    if (tries == kTries || !queue_.Pause(pause)) return status;
    pause *= 2;
  }
}

void Tracer::Send(std::vector<Record>& records) {
  const auto count = static_cast<double>(records.size());
  const absl::Status status = Deliver(Message(records));
  if (status.ok()) {
    sent_.Add(count);
    complained_ = false;
    return;
  }
  failed_.Add(count);
  // Once, until it takes them again.
  if (std::exchange(complained_, true)) return;
  log::Warn("traces are lost: {}: {}", url_.shown(),
            std::string(status.message()));
}

}  // namespace stoker
