#include "planning/bucket_choice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

constexpr double kFullBatches = 0.05;
constexpr double kLargestRuns = 0.001;
constexpr size_t kRunSizes = 12;  // numbers of rows that are told apart

struct Load : ShapeLoad {
  double requests = 0;  // that these runs answer
};

bool IsAllowed(const ModelSpec& spec, const DimensionSizes& sizes) {
  if (sizes.size() != spec.dimensions.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < spec.dimensions[d].min ||
        sizes[d] > spec.dimensions[d].max) {
      return false;
    }
  }
  return !spec.batch_dimension.has_value() ||
         sizes[static_cast<size_t>(*spec.batch_dimension)] <=
             spec.max_batch_size;
}

// Without what this version can't be asked for: another may have had other
// bounds. FAILED_PRECONDITION when nothing is left.
absl::StatusOr<TrafficRecord> PossibleTraffic(const ModelSpec& spec,
                                              const TrafficRecord& traffic) {
  TrafficRecord possible = traffic;
  std::erase_if(possible.requests, [&](const ShapeCount& shape) {
    return shape.sizes.size() != spec.dimensions.size() || shape.count == 0 ||
           !IsAllowed(spec, shape.sizes);
  });
  if (possible.requests.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no traffic of model ", spec.name,
                     " was recorded yet that buckets could be chosen by"));
  }
  return possible;
}

// Without loads.
BucketProblem ProblemOf(const ModelSpec& spec,
                        const BucketExperience& experience, int max_buckets) {
  BucketProblem problem{.loads = {},
                        .paddable = Paddable(spec),
                        .largest = {},
                        .compiled = experience.compiled,
                        .eager = experience.eager,
                        .max_buckets = max_buckets};
  for (const DimensionSpec& dimension : spec.dimensions) {
    problem.largest.push_back(dimension.max);
  }
  if (spec.batch_dimension.has_value()) {
    problem.largest[static_cast<size_t>(*spec.batch_dimension)] =
        spec.max_batch_size;
  }
  return problem;
}

// How rows are run that share a run: rows of the run, and the share of all rows
// that are in such runs.
struct SharedRows {
  int64_t rows = 0;
  double share = 0;
};

std::vector<SharedRows> SharedRuns(const ModelSpec& spec,
                                   const TrafficRecord& traffic,
                                   double full_batches) {
  if (!spec.batch_dimension.has_value() || spec.max_batch_size < 2) return {};
  double all = 0;
  std::vector<ShapeCount> kinds;
  for (const ShapeCount& run : traffic.runs) {
    const int64_t rows =
        std::clamp<int64_t>(run.sizes[0], 1, spec.max_batch_size);
    all += static_cast<double>(rows) * static_cast<double>(run.count);
    if (run.sizes[1] > 1) kinds.push_back({{rows}, run.count});
  }
  std::vector<SharedRows> shared;
  for (const ShapeCount& kind : MergeShapes(std::move(kinds), kRunSizes)) {
    const double rows =
        static_cast<double>(kind.sizes[0]) * static_cast<double>(kind.count);
    shared.push_back(
        {kind.sizes[0], std::min(rows / all, 1.0) * (1 - full_batches)});
  }
  if (full_batches > 0) shared.push_back({spec.max_batch_size, full_batches});
  return shared;
}

// `full_batches`: the share of rows that are taken to come in full batches,
// seen or not.
std::vector<Load> LoadsOf(const ModelSpec& spec, const TrafficRecord& traffic,
                          const RunCost& eager, double full_batches) {
  const std::vector<SharedRows> shared =
      SharedRuns(spec, traffic, full_batches);
  double alone = 1;
  for (const SharedRows& rows : shared) alone -= rows.share;
  std::vector<Load> loads;
  double all_rows = 0, all_requests = 0;
  std::map<DimensionSizes, double> rows_by_others;
  for (const ShapeCount& shape : traffic.requests) {
    const auto count = static_cast<double>(shape.count);
    Load load;
    load.sizes = shape.sizes;
    load.runs = load.requests = count * std::max(alone, 0.0);
    loads.push_back(load);
    if (shared.empty()) continue;
    int64_t& batch = load.sizes[static_cast<size_t>(*spec.batch_dimension)];
    const double rows = count * static_cast<double>(batch);
    batch = 1;
    rows_by_others[load.sizes] += rows;
    all_rows += rows;
    all_requests += count;
  }
  for (const auto& [others, rows] : rows_by_others) {
    for (const SharedRows& run : shared) {
      Load load;
      load.sizes = others;
      load.sizes[static_cast<size_t>(*spec.batch_dimension)] = run.rows;
      load.runs = rows * run.share / static_cast<double>(run.rows);
      // Nobody puts together what no bucket holds.
      load.outside_cost = static_cast<double>(run.rows) * eager(others);
      load.requests =
          all_rows > 0 ? rows * run.share * all_requests / all_rows : 0;
      loads.push_back(std::move(load));
    }
  }
  return loads;
}

// As large as today's largest, if that is one size per dimension.
std::optional<Load> LargestToday(const std::vector<Load>& loads,
                                 const std::vector<ShapeBucket>& today,
                                 const std::vector<bool>& paddable) {
  if (today.empty() ||
      std::find(paddable.begin(), paddable.end(), false) != paddable.end()) {
    return std::nullopt;
  }
  Load largest;
  largest.sizes = today.front().sizes;
  for (const ShapeBucket& bucket : today) {
    for (size_t d = 0; d < bucket.sizes.size(); ++d) {
      largest.sizes[d] = std::max(largest.sizes[d], bucket.sizes[d]);
    }
  }
  for (const Load& load : loads) largest.runs += load.runs * kLargestRuns;
  largest.requests = largest.runs;
  return largest;
}

BucketOutlook Outlook(const BucketProblem& problem,
                      const std::vector<Load>& loads,
                      const std::vector<ShapeBucket>& buckets) {
  BucketOutlook outlook;
  for (const ShapeBucket& bucket : buckets) {
    outlook.uses.push_back({.bucket = bucket,
                            .requests = 0,
                            .padding = 0,
                            .cost = problem.compiled(bucket.sizes)});
  }
  double requests = 0, outside_runs = 0, outside_cost = 0;
  double useful = 0, computed = 0;
  std::vector<double> asked(buckets.size(), 0), run(buckets.size(), 0);
  const std::vector<int> assigned = AssignLoads(problem, buckets);
  for (size_t i = 0; i < loads.size(); ++i) {
    const double elements = loads[i].runs * Volume(loads[i].sizes);
    requests += loads[i].requests;
    useful += elements;
    if (assigned[i] < 0) {
      outlook.outside += loads[i].requests;
      outside_runs += loads[i].runs;
      if (loads[i].outside_cost > 0) {
        outside_cost += loads[i].runs * loads[i].outside_cost;
      } else if (problem.eager.has_value()) {
        outside_cost += loads[i].runs * (*problem.eager)(loads[i].sizes);
      }
      computed += elements;
      continue;
    }
    const auto b = static_cast<size_t>(assigned[i]);
    outlook.uses[b].requests += loads[i].requests;
    asked[b] += elements;
    run[b] += loads[i].runs * Volume(buckets[b].sizes);
    computed += loads[i].runs * Volume(buckets[b].sizes);
  }
  const auto share = [](double part, double of) {
    return of > 0 ? part / of : 0;
  };
  for (size_t b = 0; b < buckets.size(); ++b) {
    outlook.uses[b].requests = share(outlook.uses[b].requests, requests);
    outlook.uses[b].padding = share(run[b] - asked[b], run[b]);
  }
  outlook.outside = share(outlook.outside, requests);
  outlook.outside_cost = share(outside_cost, outside_runs);
  outlook.padding = share(computed - useful, computed);
  outlook.cost_per_request = share(ExpectedCost(problem, buckets), requests);
  return outlook;
}

}  // namespace

int AllowedBuckets(const BucketLimits& limits,
                   const BucketExperience& experience) {
  double most = limits.max_buckets;
  if (limits.max_compile_seconds.has_value()) {
    most = std::min(
        most, *limits.max_compile_seconds / (experience.compile_seconds > 0
                                                 ? experience.compile_seconds
                                                 : kAssumedCompileSeconds));
  }
  if (limits.max_artifact_bytes.has_value()) {
    most =
        std::min(most, static_cast<double>(*limits.max_artifact_bytes) /
                           static_cast<double>(experience.artifact_bytes > 0
                                                   ? experience.artifact_bytes
                                                   : kAssumedArtifactBytes));
  }
  return static_cast<int>(std::clamp<double>(most, 1, kMostBuckets));
}

absl::StatusOr<BucketChoice> ChooseBuckets(
    const ModelSpec& spec, const std::vector<ShapeBucket>& today,
    const TrafficRecord& traffic, const BucketExperience& experience,
    int max_buckets) {
  BucketChoice choice;
  ASSIGN_OR_RETURN(const TrafficRecord possible,
                   PossibleTraffic(spec, traffic));
  for (const ShapeCount& shape : possible.requests) {
    choice.requests += shape.count;
  }
  BucketProblem problem = ProblemOf(spec, experience, max_buckets);
  std::vector<Load> loads =
      LoadsOf(spec, possible, experience.eager, kFullBatches);
  if (auto largest = LargestToday(loads, today, problem.paddable)) {
    loads.push_back(*std::move(largest));
  }
  if (spec.unmatched == Unmatched::kReject) {
    problem.eager.reset();
    // Made up, and refused today: no reason to change anything.
    problem.loads.assign(loads.begin(), loads.end());
    const std::vector<int> assigned = AssignLoads(problem, today);
    size_t i = 0;
    std::erase_if(loads, [&](const Load&) { return assigned[i++] < 0; });
  }
  problem.loads.assign(loads.begin(), loads.end());
  ASSIGN_OR_RETURN(const std::vector<ShapeBucket> proposal,
                   ProposeBuckets(problem));
  choice.today = Outlook(problem, loads, today);
  choice.proposal = Outlook(problem, loads, proposal);
  if (choice.today.cost_per_request > 0) {
    choice.saving =
        1 - choice.proposal.cost_per_request / choice.today.cost_per_request;
  }
  return choice;
}

absl::StatusOr<std::vector<double>> RequestsToPayBack(
    const ModelSpec& spec, const TrafficRecord& traffic,
    const BucketExperience& experience) {
  ASSIGN_OR_RETURN(const TrafficRecord possible,
                   PossibleTraffic(spec, traffic));
  if (!experience.compiled.measured()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no bucket of model ", spec.name, " was measured here yet"));
  }
  const std::vector<Load> loads =
      LoadsOf(spec, possible, experience.eager, /*full_batches=*/0);
  BucketProblem problem =
      ProblemOf(spec, experience, static_cast<int>(spec.buckets.size()));
  problem.loads.assign(loads.begin(), loads.end());
  const std::vector<int> assigned = AssignLoads(problem, spec.buckets);
  double requests = 0;
  std::vector<double> runs(spec.buckets.size(), 0);
  for (size_t i = 0; i < loads.size(); ++i) {
    requests += loads[i].requests;
    if (assigned[i] >= 0) {
      runs[static_cast<size_t>(assigned[i])] += loads[i].runs;
    }
  }
  const double compile_seconds = experience.compile_seconds > 0
                                     ? experience.compile_seconds
                                     : kAssumedCompileSeconds;
  std::vector<double> pay_back;
  for (size_t b = 0; b < spec.buckets.size(); ++b) {
    // Without its artifact the bucket's runs are eager, and of its size.
    const DimensionSizes& sizes = spec.buckets[b].sizes;
    const double saved =
        runs[b] * (experience.eager(sizes) - experience.compiled(sizes));
    pay_back.push_back(saved > 0 ? compile_seconds * requests / saved
                                 : std::numeric_limits<double>::infinity());
  }
  return pay_back;
}

std::optional<std::vector<ShapeBucket>> ChosenBefore(
    const ModelSpec& spec, const TrafficRecord& traffic) {
  if (!traffic.chosen.has_value()) return std::nullopt;
  for (const ShapeBucket& bucket : *traffic.chosen) {
    if (!IsAllowed(spec, bucket.sizes)) return std::nullopt;
  }
  return traffic.chosen;
}

AutoBuckets ChooseAutoBuckets(const ModelSpec& spec,
                              const TrafficRecord& traffic,
                              const BucketExperience& experience) {
  AutoBuckets result{.buckets = spec.buckets, .changed = false, .why = ""};
  const auto before = ChosenBefore(spec, traffic);
  if (before.has_value()) result.buckets = *before;
  const std::string kept =
      before.has_value() ? "those chosen last stay" : "the default ones";
  const int most =
      std::clamp<int>(static_cast<int>(spec.buckets.size()), 1, kMostBuckets);
  const absl::StatusOr<BucketChoice> choice =
      ChooseBuckets(spec, result.buckets, traffic, experience, most);
  if (!choice.ok()) {
    result.why = absl::StrCat(kept, ", ", choice.status().message());
    return result;
  }
  if (choice->requests < kFewestAutoRequests) {
    result.why =
        absl::StrFormat("%s, %d requests are too few to choose by, expected %d",
                        kept, choice->requests, kFewestAutoRequests);
    return result;
  }
  if (choice->saving < kLeastAutoSaving) {
    result.why = absl::StrFormat(
        "%s, others would save %.1f %% of the time for %d requests, expected "
        "%.0f %%",
        kept, std::max(choice->saving, 0.0) * 100, choice->requests,
        kLeastAutoSaving * 100);
    return result;
  }
  std::vector<ShapeBucket> proposal;
  std::vector<std::string> names;
  for (const BucketOutlook::Use& use : choice->proposal.uses) {
    proposal.push_back(use.bucket);
    names.push_back(BucketName(use.bucket, spec.DimensionNames()));
  }
  result.changed = true;
  result.why = absl::StrFormat(
      "%d in place of %d, they save %.1f %% of the time for %d requests, by "
      "%s: %s",
      proposal.size(), result.buckets.size(), choice->saving * 100,
      choice->requests,
      experience.compiled.measured()
          ? absl::StrCat("the run times of ", experience.measured_buckets,
                         " buckets")
          : "a guess of run times",
      absl::StrJoin(names, " "));
  result.buckets = std::move(proposal);
  return result;
}

}  // namespace stoker
