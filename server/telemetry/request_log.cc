#include "telemetry/request_log.h"

#include <utility>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

// Lines are written together: this long after the first of them came.
constexpr absl::Duration kLinger = absl::Milliseconds(100);

constexpr absl::Duration kLastWords = absl::Seconds(1);

Counter LinesBy(MetricRegistry& metrics, const char* outcome) {
  return metrics.Counter(metric::kRequestLogLines, {{"outcome", outcome}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<RequestLog>> RequestLog::Open(
    const RequestLogOptions& options, MetricRegistry& metrics, Clock& clock) {
  ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(options.path));
  return std::unique_ptr<RequestLog>(
      new RequestLog(options, std::move(file), metrics, clock));
}

RequestLog::RequestLog(const RequestLogOptions& options, AppendFile file,
                       MetricRegistry& metrics, Clock& clock)
    : options_(options),
      sampler_(options.sample),
      clock_(clock),
      written_(LinesBy(metrics, "written")),
      full_(LinesBy(metrics, "queue_full")),
      rate_(LinesBy(metrics, "failure_rate")),
      failed_(LinesBy(metrics, "write_failed")),
      queue_(kQueued, kLinger, clock),
      file_(std::move(file)),
      writer_("request-log", [this] { WriteLoop(); }) {}

RequestLog::~RequestLog() { queue_.Close(kLastWords); }

bool RequestLog::Wants(bool failed) {
  if (sampler_.Draw()) return true;
  return failed && options_.failures_per_second > 0 && MayLogFailure();
}

bool RequestLog::MayLogFailure() {
  const MonotonicTime now = clock_.Now();
  {
    absl::MutexLock lock(&mu_);
    if (now >= second_end_) {
      second_end_ = now + absl::Seconds(1);
      failures_ = 0;
    }
    if (failures_ < options_.failures_per_second) {
      ++failures_;
      return true;
    }
  }
  rate_.Add();
  return false;
}

void RequestLog::Put(RequestRecord record) {
  if (!queue_.Put(std::move(record))) full_.Add();
}

void RequestLog::WriteLoop() {
  for (;;) {
    const std::vector<RequestRecord> records = queue_.Take();
    if (records.empty()) return;
    Write(records);
  }
}

void RequestLog::Write(const std::vector<RequestRecord>& records) {
  lines_.clear();
  for (const RequestRecord& record : records) {
    AppendRequestLine(record, options_.format, lines_);
    lines_ += '\n';
  }
  absl::Status status = file_.FollowName();
  Complain(status);
  if (const absl::Status done =
          file_.Write(lines_, [this] { return queue_.HasEnded(); });
      !done.ok()) {
    failed_.Add(static_cast<double>(records.size()));
    Complain(done);
    return;
  }
  written_.Add(static_cast<double>(records.size()));
  if (status.ok()) complained_ = false;
}

// Once, until lines are written again.
void RequestLog::Complain(const absl::Status& status) {
  if (status.ok() || std::exchange(complained_, true)) return;
  log::Warn("request log: {}", std::string(status.message()));
}

}  // namespace stoker
