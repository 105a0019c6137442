#include "batching/batch_planner.h"

#include <algorithm>
#include <numeric>

namespace stoker {
namespace {

// A larger bucket than needed has to be this much cheaper (because it is
// compiled and the smaller one is not, say): less is noise.
constexpr double kWorthMorePadding = 0.8;

}  // namespace

BatchPlanner::BatchPlanner(const Lanes& lanes, int64_t max_rows,
                           int64_t max_tasks)
    : lanes_(lanes),
      max_rows_(max_rows),
      max_tasks_(static_cast<size_t>(max_tasks)) {
  SetCosts(std::vector<double>(lanes.buckets().size(), 1));
}

void BatchPlanner::SetCosts(absl::Span<const double> costs) {
  const std::vector<int64_t>& row_sizes = lanes_.row_sizes();
  choices_.assign(static_cast<size_t>(lanes_.count()),
                  std::vector<Choice>(row_sizes.size()));
  lane_costs_.assign(choices_.size(), 0);
  for (size_t lane = 0; lane < choices_.size(); ++lane) {
    for (size_t r = 0; r < row_sizes.size(); ++r) {
      Choice& choice = choices_[lane][r];
      for (const int bucket : lanes_.by_volume()) {
        const double cost = costs[static_cast<size_t>(bucket)];
        if (choice.bucket >= 0 && cost >= choice.cost * kWorthMorePadding) {
          continue;
        }
        if (lanes_.Holds(bucket, static_cast<int>(lane), row_sizes[r])) {
          choice = {bucket, cost};
        }
      }
      if (choice.bucket < 0) continue;
      const double per_row = choice.cost / static_cast<double>(row_sizes[r]);
      double& best = lane_costs_[lane];
      best = best == 0 ? per_row : std::min(best, per_row);
    }
  }
}

BatchPlanner::Choice BatchPlanner::Cheapest(int lane, int64_t rows) const {
  const size_t index = lanes_.RowIndex(rows);
  const std::vector<Choice>& choices = choices_[static_cast<size_t>(lane)];
  return index < choices.size() ? choices[index] : Choice();
}

BatchPlan BatchPlanner::Plan(absl::Span<const Candidate> candidates,
                             bool in_order) {
  const Candidate& first = candidates[0];
  if (first.lane < 0) return {.tasks = {0}, .rows = first.rows};

  order_.resize(candidates.size());
  std::iota(order_.begin(), order_.end(), 0);
  // The dearest lane first; tasks that run alone behind all others.
  const auto cost = [&](size_t i) {
    const int lane = candidates[i].lane;
    return lane < 0 ? -1.0 : lane_costs_[static_cast<size_t>(lane)];
  };
  const auto dearer = [&](size_t a, size_t b) { return cost(a) > cost(b); };
  if (!in_order && !std::is_sorted(order_.begin(), order_.end(), dearer)) {
    std::stable_sort(order_.begin(), order_.end(), dearer);
  }
  CutIntoBatches(candidates);

  size_t begin = 0;
  const auto has_first = [&] {
    const auto from = order_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = from + static_cast<std::ptrdiff_t>(cuts_[begin]);
    return std::find(from, to, 0u) != to;
  };
  while (!has_first()) begin += cuts_[begin];

  BatchPlan plan;
  int lane = first.lane;
  for (size_t i = begin; i < begin + cuts_[begin]; ++i) {
    plan.tasks.push_back(order_[i]);
    plan.rows += candidates[order_[i]].rows;
    lane = lanes_.Join(lane, candidates[order_[i]].lane);
  }
  plan.bucket = Cheapest(lane, plan.rows).bucket;
  if (!in_order) FillUp(candidates, plan);
  std::sort(plan.tasks.begin(), plan.tasks.end());
  plan.gains_by_waiting = GainsByWaiting(lane, plan);
  return plan;
}

void BatchPlanner::CutIntoBatches(absl::Span<const Candidate> candidates) {
  const size_t count = order_.size();
  rest_.assign(count + 1, 0);
  cuts_.assign(count, 1);
  for (size_t i = count; i-- > 0;) {
    int lane = candidates[order_[i]].lane;
    int64_t rows = candidates[order_[i]].rows;
    rest_[i] = rest_[i + 1];
    if (lane < 0) continue;
    rest_[i] += Cheapest(lane, rows).cost;
    for (size_t end = i + 1; end < count; ++end) {
      const Candidate& next = candidates[order_[end]];
      if (next.lane < 0 || next.rows > max_rows_ - rows ||
          end - i >= max_tasks_) {
        break;
      }
      lane = lanes_.Join(lane, next.lane);
      rows += next.rows;
      const Choice choice = lane < 0 ? Choice() : Cheapest(lane, rows);
      if (choice.bucket < 0) break;
      // Of equally cheap ways the one with the larger first batch.
      const double total = choice.cost + rest_[end + 1];
      if (total > rest_[i]) continue;
      rest_[i] = total;
      cuts_[i] = end + 1 - i;
    }
  }
}

void BatchPlanner::FillUp(absl::Span<const Candidate> candidates,
                          BatchPlan& plan) const {
  const auto planned = plan.tasks;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const int64_t rows = plan.rows + candidates[i].rows;
    if (plan.tasks.size() >= max_tasks_) return;
    if (candidates[i].lane < 0 || rows > max_rows_ ||
        !lanes_.Holds(plan.bucket, candidates[i].lane, rows) ||
        std::find(planned.begin(), planned.end(), i) != planned.end()) {
      continue;
    }
    plan.tasks.push_back(i);
    plan.rows = rows;
  }
}

bool BatchPlanner::GainsByWaiting(int lane, const BatchPlan& plan) const {
  constexpr double kWorthIt = 0.98;
  if (plan.tasks.size() >= max_tasks_) return false;
  const double now = Cheapest(lane, plan.rows).cost /
                     static_cast<double>(plan.rows) * kWorthIt;
  const std::vector<int64_t>& row_sizes = lanes_.row_sizes();
  for (const int64_t size : row_sizes) {
    const int64_t rows = std::min(size, max_rows_);
    if (rows <= plan.rows) continue;
    const Choice fuller = Cheapest(lane, rows);
    if (fuller.bucket >= 0 && fuller.cost / static_cast<double>(rows) < now) {
      return true;
    }
  }
  return false;
}

}  // namespace stoker
