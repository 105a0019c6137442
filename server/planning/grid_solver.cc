#include "planning/grid_solver.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stoker {
namespace {

size_t RoundUp(const std::vector<int64_t>& values, int64_t value) {
  const auto at = std::lower_bound(values.begin(), values.end(), value);
  return static_cast<size_t>(at - values.begin());
}

}  // namespace

GridSolver::GridSolver(const LoadPart& part, std::vector<size_t> varying,
                       const RunCost& compiled, size_t max_buckets)
    : base_(part.front().sizes), compiled_(compiled), most_(max_buckets) {
  std::map<int64_t, double> weights[2];
  for (size_t v = 0; v < varying.size(); ++v) {
    for (const LoadPoint& point : part) {
      weights[v][point.sizes[varying[v]]] += point.runs;
    }
  }
  if (varying.size() == 2 && weights[0].size() < weights[1].size()) {
    std::swap(weights[0], weights[1]);
    std::swap(varying[0], varying[1]);
  }
  if (!varying.empty()) inner_dimension_ = varying[0];
  if (varying.size() == 2) outer_dimension_ = varying[1];
  if (inner_dimension_) inner_ = Thin(weights[0], kInnerSizes);
  if (outer_dimension_) outer_ = Thin(weights[1], kOuterSizes);
  runs_.assign(outer_.size(), std::vector<double>(inner_.size(), 0));
  outside_ = runs_;
  for (const LoadPoint& point : part) {
    const size_t o =
        outer_dimension_ ? RoundUp(outer_, point.sizes[*outer_dimension_]) : 0;
    const size_t i =
        inner_dimension_ ? RoundUp(inner_, point.sizes[*inner_dimension_]) : 0;
    runs_[o][i] += point.runs;
    outside_[o][i] += point.outside;
  }
  GroupOuter();
}

std::vector<ShapeBucket> GridSolver::Buckets(size_t count) const {
  std::vector<ShapeBucket> buckets;
  for (size_t end = outer_.size(); end > 0;) {
    const Best& best = best_[end];
    const size_t k = std::min(count, best.curve.size() - 1);
    const size_t begin = best.begins[k];
    const Line line = Group(begin, end);
    const LineSolver solver(line, best.own[k], /*keep_cuts=*/true);
    for (const size_t i : solver.Ends(best.own[k])) {
      buckets.push_back({Sizes(end - 1, i)});
    }
    count = k - best.own[k];
    end = begin;
  }
  return buckets;
}

std::vector<ShapeBucket> GridSolver::Candidates() const {
  std::vector<ShapeBucket> candidates;
  const size_t step =
      std::max<size_t>(1, (outer_.size() * inner_.size()) / kMaxCandidates + 1);
  for (size_t o = 0; o < outer_.size(); ++o) {
    for (size_t i = inner_.size(); i > 0; i -= std::min(i, step)) {
      candidates.push_back({Sizes(o, i - 1)});
    }
  }
  return candidates;
}

DimensionSizes GridSolver::Sizes(size_t outer, size_t inner) const {
  DimensionSizes sizes = base_;
  if (outer_dimension_) sizes[*outer_dimension_] = outer_[outer];
  if (inner_dimension_) sizes[*inner_dimension_] = inner_[inner];
  return sizes;
}

Line GridSolver::Group(size_t begin, size_t end) const {
  Line line{std::vector<double>(inner_.size(), 0),
            std::vector<double>(inner_.size(), 0),
            {}};
  for (size_t i = 0; i < inner_.size(); ++i) {
    for (size_t o = begin; o < end; ++o) {
      line.runs[i] += runs_[o][i];
      line.outside[i] += outside_[o][i];
    }
    line.costs.push_back(compiled_(Sizes(end - 1, i)));
  }
  return line;
}

void GridSolver::GroupOuter() {
  best_.push_back({.curve = {0}, .begins = {0}, .own = {0}});
  for (size_t end = 1; end <= outer_.size(); ++end) {
    Best best;
    for (size_t begin = 0; begin < end; ++begin) {
      const Line line = Group(begin, end);
      const LineSolver solver(line, most_, /*keep_cuts=*/false);
      const SharedBuckets shared =
          ShareBuckets(best_[begin].curve, solver.curve(), most_);
      for (size_t k = 0; k < shared.curve.size(); ++k) {
        if (k == best.curve.size()) {
          best.curve.push_back(kNever);
          best.begins.push_back(0);
          best.own.push_back(0);
        }
        if (shared.curve[k] >= best.curve[k]) continue;
        best.curve[k] = shared.curve[k];
        best.begins[k] = begin;
        best.own[k] = shared.right[k];
      }
    }
    best_.push_back(std::move(best));
  }
}

}  // namespace stoker
