// What the daemon is doing, at one moment, for whoever looks: the page
// (status/status_html.h), /status.json and `stokerctl status`
// (status/status_json.h) show nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "metrics/recent_refusals.h"
#include "models/model_manager.h"

namespace stoker {

struct ServerStatus {
  std::string version;
  std::string torch;
  std::string march;
  absl::Time time;  // of this look
  absl::Duration uptime;
  // What "recent" means: since an earlier look, or since the start.
  absl::Duration window;
  bool ready = false;
};

struct RecentRequests {
  double per_second = 0;
  std::optional<absl::Duration> p50, p99;  // nullopt: there was none
};

struct BucketFigures {
  BucketStatus status;
  int64_t compiled_requests = 0;  // since the start
  int64_t eager_requests = 0;
  double compile_seconds = 0;
  double saved_seconds = 0;
  int64_t break_even_runs = 0;  // 0: never, or nothing to pay
};

struct ModelStatus {
  std::string model;  // "minilm:1"
  VersionState state = VersionState::kNew;
  std::string reason;  // what it is doing, or why it failed
  bool newest = false;
  std::map<std::string, int> aliases;  // with their percentages
  std::string device;                  // "cuda:0"; empty when not loaded
  WarmupProgress warmup;
  int64_t answered = 0;  // requests, since the start
  int64_t failed = 0;
  int64_t waiting = 0;
  RecentRequests recent;
  std::vector<BucketFigures> buckets;  // in the plan's order
};

struct CacheStatus {
  bool writable = false;
  int64_t entries = 0;  // of the upper folder, as last counted
  int64_t bytes = 0;
  int64_t upper_hits = 0;
  int64_t lower_hits = 0;
  int64_t misses = 0;
  std::map<std::string, int64_t> rejections;  // by the counter's reason
  double compile_seconds_saved = 0;
};

struct Status {
  ServerStatus server;
  std::vector<ModelStatus> models;
  CacheStatus cache;
  std::vector<RecentRefusals::Refusal> refusals;  // the newest first
};

// "graph", "aot" or "eager": what answers requests of a bucket.
std::string TierOf(const BucketStatus& bucket);

// What came between two looks at a histogram of latencies; `before` is empty
// where it wasn't there. One that holds less by now began anew meanwhile, as
// that of a version does which is unloaded and loaded again.
RecentRequests RecentSince(const std::map<double, double>& before,
                           std::map<double, double> now, absl::Duration window);

// Takes a Status. A look costs less than a scrape of /metrics does, and holds
// no lock that a request waits for.
//
// Thread-safe.
class StatusReader {
 public:
  // All of them outlive it. `started`: when the process did.
  StatusReader(const ModelManager& manager, const MetricRegistry& metrics,
               const RecentRefusals& refusals, Clock& clock,
               MonotonicTime started);

  Status Read();

 private:
  using Histogram = std::map<double, double>;  // as MetricSnapshot::Buckets
  struct Look {
    MonotonicTime time;
    std::map<std::string, Histogram> latency;  // by "minilm:1"
  };

  // Remembers `now`; what it is to be compared with.
  Look Remember(const Look& now) ABSL_LOCKS_EXCLUDED(mu_);

  const ModelManager& manager_;
  const MetricRegistry& metrics_;
  const RecentRefusals& refusals_;
  Clock& clock_;
  const MonotonicTime started_;

  absl::Mutex mu_;
  // The first is the newest of those from more than a minute ago.
  std::deque<Look> looks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
