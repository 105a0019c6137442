#include "telemetry/request_log.h"

#include <utility>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

// Lines are written together: this long after the first of them, or when there
// are so many.
constexpr absl::Duration kLinger = absl::Milliseconds(100);
constexpr size_t kSoon = RequestLog::kQueued / 4;

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
      file_(std::move(file)),
      writer_("request-log", [this] { WriteLoop(); }) {}

RequestLog::~RequestLog() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  give_up_ = clock_.Now() + kLastWords;
}

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
  {
    absl::MutexLock lock(&mu_);
    if (queue_.size() < kQueued) {
      queue_.push_back(std::move(record));
      return;
    }
  }
  full_.Add();
}

std::vector<RequestRecord> RequestLog::Take() {
  std::vector<RequestRecord> taken;
  taken.reserve(kSoon);
  absl::MutexLock lock(&mu_);
  const auto some = [this] {
    mu_.AssertReaderHeld();
    return stopping_ || !queue_.empty();
  };
  const auto many = [this] {
    mu_.AssertReaderHeld();
    return stopping_ || queue_.size() >= kSoon;
  };
  clock_.AwaitWithDeadline(&mu_, absl::Condition(&some),
                           MonotonicTime::InfiniteFuture());
  clock_.AwaitWithDeadline(&mu_, absl::Condition(&many),
                           clock_.Now() + kLinger);
  taken.swap(queue_);
  return taken;
}

void RequestLog::WriteLoop() {
  for (;;) {
    const std::vector<RequestRecord> records = Take();
    if (records.empty()) return;
    Write(records);
  }
}

bool RequestLog::GivesUp() {
  const MonotonicTime now = clock_.Now();
  absl::MutexLock lock(&mu_);
  return now >= give_up_;
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
          file_.Write(lines_, [this] { return GivesUp(); });
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
