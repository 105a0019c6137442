#include "planning/bucket_proposal.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planning/bucket_exchange.h"
#include "planning/grid_solver.h"
#include "planning/line_solver.h"
#include "planning/load_part.h"

namespace stoker {
namespace {

constexpr double kRefusalCost = 1000;

// Of one run.
double OutsideCost(const BucketProblem& problem, const ShapeLoad& load) {
  if (load.outside_cost > 0) return load.outside_cost;
  return problem.eager.has_value()
             ? (*problem.eager)(load.sizes)
             : kRefusalCost * problem.compiled(load.sizes);
}

// One part: its least cost by number of buckets, and those buckets.
class PartSolver {
 public:
  PartSolver(LoadPart part, size_t rank, const RunCost& compiled,
             size_t max_buckets)
      : part_(std::move(part)), compiled_(compiled) {
    for (size_t d = 0; d < rank; ++d) {
      const bool varies =
          std::any_of(part_.begin(), part_.end(), [&](const LoadPoint& point) {
            return point.sizes[d] != part_.front().sizes[d];
          });
      if (varies) varying_.push_back(d);
    }
    if (varying_.size() <= 2) {
      grid_.emplace(part_, varying_, compiled_, max_buckets);
      curve_ = grid_->curve();
    } else {
      BucketExchange greedy(part_, compiled_, ProductOfSizes(part_, varying_));
      curve_ = greedy.AddGreedily(max_buckets);
    }
  }

  const std::vector<double>& curve() const { return curve_; }

  std::vector<ShapeBucket> Buckets(size_t count) const {
    if (varying_.size() < 2) return grid_->Buckets(count);
    BucketExchange greedy(part_, compiled_,
                          grid_.has_value() ? grid_->Candidates()
                                            : ProductOfSizes(part_, varying_));
    greedy.AddGreedily(count);
    greedy.Improve();
    if (!grid_.has_value()) return greedy.chosen();
    // Groups that share buckets are beyond the dynamic programme, sets that are
    // far from the greedy one beyond exchanges: take the better.
    BucketExchange exchange(part_, compiled_, grid_->Candidates());
    exchange.chosen() = grid_->Buckets(count);
    exchange.DropUnused();
    exchange.AddGreedily(count);
    exchange.Improve();
    if (greedy.Cost() < exchange.Cost()) return greedy.chosen();
    return exchange.chosen();
  }

 private:
  const LoadPart part_;
  const RunCost compiled_;
  std::vector<size_t> varying_;     // dimensions
  std::optional<GridSolver> grid_;  // with at most two of them
  std::vector<double> curve_;
};

// By the sizes of what can't be padded.
std::vector<LoadPart> SplitIntoParts(const BucketProblem& problem) {
  std::map<DimensionSizes, std::map<DimensionSizes, LoadPoint>> parts;
  for (const ShapeLoad& load : problem.loads) {
    if (load.runs <= 0 || !HoldsPoint(problem.largest, load.sizes)) continue;
    DimensionSizes fixed;
    for (size_t d = 0; d < load.sizes.size(); ++d) {
      if (!problem.paddable[d]) fixed.push_back(load.sizes[d]);
    }
    LoadPoint& point = parts[fixed][load.sizes];
    point.sizes = load.sizes;
    point.runs += load.runs;
    point.outside += load.runs * OutsideCost(problem, load);
  }
  std::vector<LoadPart> split;
  for (const auto& [fixed, points] : parts) {
    LoadPart part;
    for (const auto& [sizes, point] : points) part.push_back(point);
    split.push_back(std::move(part));
  }
  return split;
}

bool IsCost(const RunCost& cost) {
  return std::isfinite(cost.fixed) && cost.fixed >= 0 &&
         std::isfinite(cost.per_element) && cost.per_element > 0;
}

}  // namespace

absl::Status CheckProblem(const BucketProblem& problem) {
  const size_t rank = problem.paddable.size();
  if (problem.largest.size() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("buckets: expected a bound for each of ", rank,
                     " dimensions, got ", problem.largest.size()));
  }
  if (problem.max_buckets < 0 || problem.max_buckets > kMostBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("buckets: expected a number from 0 to ", kMostBuckets,
                     ", got ", problem.max_buckets));
  }
  if (!IsCost(problem.compiled) ||
      (problem.eager.has_value() && !IsCost(*problem.eager))) {
    return absl::InvalidArgumentError(
        "buckets: expected costs of runs that grow with their sizes");
  }
  for (const ShapeLoad& load : problem.loads) {
    if (load.sizes.size() != rank ||
        std::any_of(load.sizes.begin(), load.sizes.end(),
                    [](int64_t size) { return size < 0; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("buckets: expected loads of ", rank, " sizes"));
    }
    if (!std::isfinite(load.runs) || load.runs < 0 ||
        !std::isfinite(load.outside_cost) || load.outside_cost < 0) {
      return absl::InvalidArgumentError(
          "buckets: expected a number of runs for each load");
    }
  }
  return absl::OkStatus();
}

std::vector<int> AssignLoads(const BucketProblem& problem,
                             absl::Span<const ShapeBucket> buckets) {
  std::vector<int> assigned;
  for (const ShapeLoad& load : problem.loads) {
    int best = -1;
    double least = kNever;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const DimensionSizes& sizes = buckets[b].sizes;
      bool holds = HoldsPoint(sizes, load.sizes);
      for (size_t d = 0; holds && d < sizes.size(); ++d) {
        holds = problem.paddable[d] || sizes[d] == load.sizes[d];
      }
      const double cost = problem.compiled(sizes);
      if (!holds || cost >= least) continue;
      least = cost;
      best = static_cast<int>(b);
    }
    assigned.push_back(best);
  }
  return assigned;
}

double ExpectedCost(const BucketProblem& problem,
                    absl::Span<const ShapeBucket> buckets) {
  const std::vector<int> assigned = AssignLoads(problem, buckets);
  double total = 0;
  for (size_t i = 0; i < assigned.size(); ++i) {
    const ShapeLoad& load = problem.loads[i];
    total += load.runs *
             (assigned[i] < 0
                  ? OutsideCost(problem, load)
                  : problem.compiled(
                        buckets[static_cast<size_t>(assigned[i])].sizes));
  }
  return total;
}

absl::StatusOr<std::vector<ShapeBucket>> ProposeBuckets(
    const BucketProblem& problem) {
  RETURN_IF_ERROR(CheckProblem(problem));
  const auto most = static_cast<size_t>(problem.max_buckets);
  std::vector<LoadPart> parts = SplitIntoParts(problem);
  std::vector<PartSolver> solvers;
  solvers.reserve(parts.size());
  std::vector<SharedBuckets> shared = {{.curve = {0}, .right = {0}}};
  for (LoadPart& part : parts) {
    solvers.emplace_back(std::move(part), problem.paddable.size(),
                         problem.compiled, most);
    shared.push_back(
        ShareBuckets(shared.back().curve, solvers.back().curve(), most));
  }
  std::vector<ShapeBucket> proposal;
  size_t count = most;
  for (size_t part = solvers.size(); part > 0; --part) {
    const SharedBuckets& all = shared[part];
    count = std::min(count, all.curve.size() - 1);
    const size_t own = all.right[count];
    for (ShapeBucket& bucket : solvers[part - 1].Buckets(own)) {
      proposal.push_back(std::move(bucket));
    }
    count -= own;
  }
  std::sort(proposal.begin(), proposal.end(),
            [](const auto& a, const auto& b) { return a.sizes < b.sizes; });
  return proposal;
}

}  // namespace stoker
