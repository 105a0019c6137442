#include "rpc/call_record.h"

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace stoker {
namespace {

bool MayNameValues(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kOutOfRange:  // sizes
    case absl::StatusCode::kDataLoss:
      return false;
    default:
      return true;
  }
}

}  // namespace

void DescribeStatus(const absl::Status& status, RequestRecord& record) {
  constexpr size_t kMaxText = 300;
  record.status = status.code();
  if (status.ok() || MayNameValues(status.code())) return;
  const std::string_view text(status.message().data(), status.message().size());
  record.error = ValidUtf8(text.substr(0, kMaxText));
  if (text.size() > kMaxText) record.error += "...";
}

void DescribeRun(const ModelHandle& handle, const InferResult& result,
                 MonotonicTime arrival, RequestRecord& record) {
  if (result.bucket >= 0) {
    record.bucket = handle.stats().bucket_name(result.bucket);
  }
  record.tier = result.tier;
  record.batch_rows = result.batch_rows;
  record.queue = result.queue;
  record.assemble = result.assemble;
  record.run = result.run;
  record.split = result.split;
  record.dequeued = result.started - arrival;
  record.begun = result.begun - arrival;
  record.batch = result.batch;
  record.thread = result.thread;
  for (const StepRun& step : result.steps) {
    record.steps.push_back({.name = step.name,
                            .tier = step.tier,
                            .after = step.submitted - arrival,
                            .total = step.total,
                            .queue = step.queue,
                            .run = step.run,
                            .batch = step.batch});
  }
}

}  // namespace stoker
