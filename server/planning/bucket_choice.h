// Which buckets a model's traffic asks for: puts together what was recorded of
// the traffic, what runs were measured to cost and what the operator allows,
// and has planning/bucket_proposal.h choose. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/bucket_experience.h"
#include "planning/bucket_proposal.h"
#include "planning/traffic.h"
#include "repository/model_spec.h"

namespace stoker {

struct BucketLimits {
  int max_buckets = 0;                        // 1 to kMostBuckets
  std::optional<double> max_compile_seconds;  // of all buckets, one by one
  std::optional<int64_t> max_artifact_bytes;  // of all buckets
};
// Of a bucket that nothing is known of.
inline constexpr double kAssumedCompileSeconds = 30;
inline constexpr int64_t kAssumedArtifactBytes = 1 << 20;

// How many buckets the limits allow; at least 1.
int AllowedBuckets(const BucketLimits& limits,
                   const BucketExperience& experience);

// What a set of buckets would mean for the traffic.
struct BucketOutlook {
  struct Use {
    ShapeBucket bucket;
    double requests = 0;  // share of all
    double padding = 0;   // share of what runs in it compute
    double cost = 0;      // of a run
  };
  std::vector<Use> uses;    // in the order of the buckets
  double outside = 0;       // share of the requests that no bucket holds
  double outside_cost = 0;  // of one of those runs, on average
  double padding = 0;       // share of all that is computed
  double cost_per_request = 0;
};

struct BucketChoice {
  uint64_t requests = 0;  // that were recorded
  BucketOutlook today;
  BucketOutlook proposal;
  // 1 - proposal / today, of the cost per request; may be below 0.
  double saving = 0;
};

// Costs are seconds, or elements where nothing was measured.
//
// Requests that ran alone count with their own shape. Those that shared runs
// count as runs of as many rows as were seen, of any request's other sizes, and
// where no bucket holds such a run, as eager runs of its single rows.
// Beside what was seen, 5 % of the rows are taken to come in full batches: a
// quiet week must not cost the ability to batch; and 0.1 % of the runs to be as
// large as today's largest bucket, which so stays where there is room for it.
//
// FAILED_PRECONDITION without recorded requests.
absl::StatusOr<BucketChoice> ChooseBuckets(
    const ModelSpec& spec, const std::vector<ShapeBucket>& today,
    const TrafficRecord& traffic, const BucketExperience& experience,
    int max_buckets);

// By bucket of the spec: how many requests of the model, distributed as those
// that were recorded, the bucket's compile has to serve until it has saved the
// time that it took. Infinity for a bucket that none of them runs in, or that
// saves nothing. FAILED_PRECONDITION without recorded requests or without a
// bucket of this program that was measured.
absl::StatusOr<std::vector<double>> RequestsToPayBack(
    const ModelSpec& spec, const TrafficRecord& traffic,
    const BucketExperience& experience);

// What `buckets: auto` chose last, where the version can still have that.
std::optional<std::vector<ShapeBucket>> ChosenBefore(
    const ModelSpec& spec, const TrafficRecord& traffic);

// What a start makes of `buckets: auto`.
struct AutoBuckets {
  std::vector<ShapeBucket> buckets;
  bool changed = false;  // against what was chosen last, or the default ones
  std::string why;       // for the log
};
// A change has to save a tenth of the time, and a hundred requests have to
// speak for it: a restart must not compile for nothing. As many buckets as the
// default ones are allowed.
AutoBuckets ChooseAutoBuckets(const ModelSpec& spec,
                              const TrafficRecord& traffic,
                              const BucketExperience& experience);
inline constexpr double kLeastAutoSaving = 0.1;
inline constexpr uint64_t kFewestAutoRequests = 100;

}  // namespace stoker
