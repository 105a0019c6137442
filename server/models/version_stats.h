// Cumulative figures of one version, as ModelStatistics reports them.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "batching/infer_task.h"
#include "metrics/metrics.h"

namespace stoker {

struct DurationStat {
  uint64_t count = 0;
  uint64_t ns = 0;
};

// Why a request failed, in the words that Triton's metrics have for it: the
// queue was full or too slow; its client has gone; its run failed; anything
// else, a mistake in the request for one.
inline constexpr std::array<std::string_view, 4> kFailureReasons = {
    "REJECTED", "CANCELED", "BACKEND", "OTHER"};

struct StatsSnapshot {
  uint64_t inference_count = 0;   // rows answered
  uint64_t execution_count = 0;   // batches run
  int64_t last_inference_ms = 0;  // Unix time
  DurationStat success, fail, queue, compute_input, compute_infer,
      compute_output;
  std::array<uint64_t, kFailureReasons.size()> fail_by_reason = {};
  struct Batch {
    DurationStat compute_input, compute_infer, compute_output;
  };
  std::map<uint64_t, Batch> batches;  // by executed batch size
};

class VersionStats {
 public:
  // `buckets`: names, by index in the model's buckets. `tiers`: all that there
  // may be.
  VersionStats(MetricSource& metrics, const Labels& labels,
               const std::vector<std::string>& buckets,
               std::vector<std::string_view> tiers = {"eager", "aot"});

  // Once per request, when its answer is written. `total`: arrival to answer.
  void RecordSuccess(const InferResult& result, int64_t rows,
                     absl::Duration total, absl::Time now);
  // The same of one that failed. `queued`: it had got as far as the queue.
  void RecordFailure(const absl::Status& status, bool queued,
                     absl::Duration total);
  // Once per batch, by the version.
  void RecordBatch(int64_t rows, absl::Duration assemble, absl::Duration run,
                   absl::Duration split);

  StatsSnapshot Snapshot() const;
  // As InferResult has it, and not below zero.
  const std::string& bucket_name(int bucket) const {
    return buckets_.at(static_cast<size_t>(bucket));
  }

 private:
  MetricSource& metrics_;
  const Labels labels_;
  Counter ok_;
  const std::vector<std::string> buckets_;
  const std::vector<std::string_view> tiers_;
  // By tier, then by bucket, the one outside all buckets first.
  std::vector<std::vector<Counter>> requests_;
  Histogram request_seconds_;
  mutable absl::Mutex mu_;
  StatsSnapshot totals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
