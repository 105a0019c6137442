#include "planning/bucket_proposal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRefusalCost = 1000;
// A bucket that saves less than this share of all time is not worth having.
constexpr double kLeastGain = 1e-9;
// Sizes that are told apart, of the dimension with fewer and the other one.
constexpr size_t kOuterSizes = 16;
constexpr size_t kInnerSizes = 1024;
// Buckets that the search by exchange chooses from.
constexpr size_t kMaxCandidates = 1024;
constexpr int kMaxExchanges = 256;

// A load, and what it costs outside all buckets.
struct Point {
  DimensionSizes sizes;
  double runs = 0;
  double outside = 0;
};

// The loads that differ in paddable dimensions only.
using Part = std::vector<Point>;

// Of one run.
double OutsideCost(const BucketProblem& problem, const ShapeLoad& load) {
  if (load.outside_cost > 0) return load.outside_cost;
  return problem.eager.has_value()
             ? (*problem.eager)(load.sizes)
             : kRefusalCost * problem.compiled(load.sizes);
}

bool HoldsPoint(const DimensionSizes& bucket, const DimensionSizes& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (bucket[d] < sizes[d]) return false;
  }
  return true;
}

// Values with their weights, ascending; of more than `most` those are kept that
// divide the weight evenly. The last always stays: the others round up.
std::vector<int64_t> Thin(const std::map<int64_t, double>& weights,
                          size_t most) {
  double sum = 0;
  for (const auto& [value, weight] : weights) sum += weight;
  std::vector<int64_t> kept;
  double seen = 0;
  for (const auto& [value, weight] : weights) {
    seen += weight;
    const double step = sum / static_cast<double>(most);
    if (weights.size() > most &&
        seen < step * static_cast<double>(kept.size() + 1)) {
      continue;
    }
    kept.push_back(value);
  }
  const int64_t last = weights.rbegin()->first;
  if (kept.empty() || kept.back() != last) kept.push_back(last);
  return kept;
}

size_t RoundUp(const std::vector<int64_t>& values, int64_t value) {
  const auto at = std::lower_bound(values.begin(), values.end(), value);
  return static_cast<size_t>(at - values.begin());
}

// --- one dimension ---

// Sorted sizes of one dimension: how many runs each has, what they cost outside
// all buckets, and what a run in a bucket of this size costs. `costs` ascends.
struct Line {
  std::vector<double> runs;
  std::vector<double> outside;
  std::vector<double> costs;
};

// The least cost of a line with at most k buckets, for k up to a limit. A run
// uses the smallest bucket that holds it; those beyond the largest run outside.
class LineSolver {
 public:
  LineSolver(const Line& line, size_t max_buckets, bool keep_cuts)
      : line_(line),
        size_(line.runs.size()),
        keep_cuts_(keep_cuts),
        runs_before_(size_ + 1, 0),
        outside_before_(size_ + 1, 0) {
    for (size_t i = 0; i < size_; ++i) {
      runs_before_[i + 1] = runs_before_[i] + line.runs[i];
      outside_before_[i + 1] = outside_before_[i] + line.outside[i];
    }
    Row row = {.costs = std::vector<double>(size_ + 1, kNever), .cuts = {}};
    row.costs[0] = 0;
    AddRow(std::move(row));
    for (size_t k = 1; k <= std::min(max_buckets, size_); ++k) {
      Row next = {.costs = std::vector<double>(size_ + 1, kNever),
                  .cuts = std::vector<int>(size_ + 1, 0)};
      Fill(rows_.back().costs, 1, size_, 0, size_, next);
      AddRow(std::move(next));
    }
  }

  // By number of buckets, from 0; never ascends.
  const std::vector<double>& curve() const { return curve_; }

  // Indices of the sizes that are buckets; the solver has kept its cuts.
  std::vector<size_t> Ends(size_t buckets) const {
    size_t k = std::min(buckets, curve_.size() - 1);
    while (k > 0 && curve_[k] == curve_[k - 1]) --k;
    std::vector<size_t> ends;
    for (size_t end = ends_[k]; k > 0; --k) {
      ends.push_back(end - 1);
      end = static_cast<size_t>(rows_[k].cuts[end]);
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

 private:
  // By the number of sizes that are covered, the last of them a bucket.
  struct Row {
    std::vector<double> costs;
    std::vector<int> cuts;  // how many the buckets before the last one cover
  };

  // Sizes [begin, end) of the row, whose best cuts lie within [low, high].
  void Fill(const std::vector<double>& before, size_t begin, size_t end,
            size_t low, size_t high, Row& row) const {
    if (begin > end) return;
    const size_t middle = begin + (end - begin) / 2;
    const double cost = line_.costs[middle - 1];
    size_t best = low;
    for (size_t cut = low; cut <= std::min(high, middle - 1); ++cut) {
      if (before[cut] == kNever) continue;
      const double total =
          before[cut] + cost * (runs_before_[middle] - runs_before_[cut]);
      if (total >= row.costs[middle]) continue;
      row.costs[middle] = total;
      row.cuts[middle] = static_cast<int>(cut);
      best = cut;
    }
    if (middle > begin) Fill(before, begin, middle - 1, low, best, row);
    // Where nothing was possible, nothing was learnt about the cuts.
    const size_t least = row.costs[middle] == kNever ? low : best;
    Fill(before, middle + 1, end, least, high, row);
  }

  void AddRow(Row row) {
    double best = kNever;
    size_t end = 0;
    for (size_t i = 0; i <= size_; ++i) {
      const double total =
          row.costs[i] + outside_before_[size_] - outside_before_[i];
      if (total < best) {
        best = total;
        end = i;
      }
    }
    if (!curve_.empty()) best = std::min(best, curve_.back());
    curve_.push_back(best);
    ends_.push_back(end);
    if (!keep_cuts_) rows_.clear();
    rows_.push_back(std::move(row));
  }

  const Line& line_;
  const size_t size_;
  const bool keep_cuts_;
  std::vector<double> runs_before_;
  std::vector<double> outside_before_;
  std::vector<Row> rows_;      // all of them, or the last
  std::vector<double> curve_;  // by number of buckets
  std::vector<size_t> ends_;   // sizes covered then
};

// --- two dimensions ---

// curve[k]: the least cost of `left` and `right` together with k buckets, and
// how many of them `right` gets.
struct Shared {
  std::vector<double> curve;
  std::vector<size_t> right;
};

Shared Share(const std::vector<double>& left, const std::vector<double>& right,
             size_t max_buckets) {
  const size_t most = std::min(max_buckets, left.size() + right.size() - 2);
  Shared shared{std::vector<double>(most + 1, kNever),
                std::vector<size_t>(most + 1, 0)};
  for (size_t r = 0; r < right.size() && r <= most; ++r) {
    for (size_t l = 0; l < left.size() && l + r <= most; ++l) {
      const double total = left[l] + right[r];
      if (total >= shared.curve[l + r]) continue;
      shared.curve[l + r] = total;
      shared.right[l + r] = r;
    }
  }
  return shared;
}

// A part whose loads differ in two dimensions, or in fewer.
class GridSolver {
 public:
  GridSolver(const Part& part, std::vector<size_t> varying,
             const RunCost& compiled, size_t max_buckets)
      : base_(part.front().sizes), compiled_(compiled), most_(max_buckets) {
    std::map<int64_t, double> weights[2];
    for (size_t v = 0; v < varying.size(); ++v) {
      for (const Point& point : part) {
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
    for (const Point& point : part) {
      const size_t o = outer_dimension_
                           ? RoundUp(outer_, point.sizes[*outer_dimension_])
                           : 0;
      const size_t i = inner_dimension_
                           ? RoundUp(inner_, point.sizes[*inner_dimension_])
                           : 0;
      runs_[o][i] += point.runs;
      outside_[o][i] += point.outside;
    }
    GroupOuter();
  }

  const std::vector<double>& curve() const { return best_.back().curve; }

  std::vector<ShapeBucket> Buckets(size_t count) const {
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

  // Along each dimension, what exchanges may choose from.
  std::vector<ShapeBucket> Candidates() const {
    std::vector<ShapeBucket> candidates;
    const size_t step = std::max<size_t>(
        1, (outer_.size() * inner_.size()) / kMaxCandidates + 1);
    for (size_t o = 0; o < outer_.size(); ++o) {
      for (size_t i = inner_.size(); i > 0; i -= std::min(i, step)) {
        candidates.push_back({Sizes(o, i - 1)});
      }
    }
    return candidates;
  }

 private:
  // The first `n` outer sizes: the least cost by number of buckets, where the
  // last group begins then, and how many buckets are its own.
  struct Best {
    std::vector<double> curve;
    std::vector<size_t> begins;
    std::vector<size_t> own;
  };

  DimensionSizes Sizes(size_t outer, size_t inner) const {
    DimensionSizes sizes = base_;
    if (outer_dimension_) sizes[*outer_dimension_] = outer_[outer];
    if (inner_dimension_) sizes[*inner_dimension_] = inner_[inner];
    return sizes;
  }

  // Outer sizes [begin, end), all padded to the last of them.
  Line Group(size_t begin, size_t end) const {
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

  void GroupOuter() {
    best_.push_back({.curve = {0}, .begins = {0}, .own = {0}});
    for (size_t end = 1; end <= outer_.size(); ++end) {
      Best best;
      for (size_t begin = 0; begin < end; ++begin) {
        const Line line = Group(begin, end);
        const LineSolver solver(line, most_, /*keep_cuts=*/false);
        const Shared shared = Share(best_[begin].curve, solver.curve(), most_);
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

  const DimensionSizes base_;
  const RunCost compiled_;
  const size_t most_;
  // Nullopt where the part's loads don't differ in so many dimensions.
  std::optional<size_t> inner_dimension_, outer_dimension_;
  std::vector<int64_t> inner_ = {0}, outer_ = {0};
  std::vector<std::vector<double>> runs_, outside_;  // by outer, by inner
  std::vector<Best> best_;                           // by number of outer sizes
};

// --- any number of dimensions ---

// A set of buckets for one part, changed one bucket at a time.
class Exchange {
 public:
  Exchange(const Part& part, const RunCost& compiled,
           std::vector<ShapeBucket> candidates)
      : part_(part), compiled_(compiled), candidates_(std::move(candidates)) {}

  std::vector<ShapeBucket>& chosen() { return chosen_; }
  double Cost() {
    Assign();
    return total_;
  }

  // Adds the candidate that saves most, while any does, and returns the cost by
  // number of buckets. What a candidate saves only shrinks as others are added,
  // so old figures are bounds (Minoux, Accelerated Greedy Algorithms, 1978).
  std::vector<double> AddGreedily(size_t max_buckets) {
    Assign();
    std::vector<double> curve = {total_};
    std::priority_queue<std::pair<double, size_t>> gains;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      gains.emplace(GainOf(candidates_[c]), c);
    }
    while (chosen_.size() < max_buckets && !gains.empty()) {
      const size_t c = gains.top().second;
      gains.pop();
      const double gain = GainOf(candidates_[c]);
      if (!gains.empty() && gain < gains.top().first) {
        gains.emplace(gain, c);
        continue;
      }
      if (!(gain > total_ * kLeastGain)) break;
      chosen_.push_back(candidates_[c]);
      Assign();
      curve.push_back(total_);
    }
    return curve;
  }

  // Replaces one bucket by one candidate while that saves something.
  void Improve() {
    for (int n = 0; n < kMaxExchanges && !chosen_.empty(); ++n) {
      Assign();
      double best = total_ * kLeastGain;
      size_t in = 0, out = chosen_.size();
      for (size_t c = 0; c < candidates_.size(); ++c) {
        const auto [gain, loser] = BestExchange(candidates_[c]);
        if (gain <= best) continue;
        best = gain;
        in = c;
        out = loser;
      }
      if (out == chosen_.size()) return;
      chosen_[out] = candidates_[in];
    }
  }

  // Removes what no load uses.
  void DropUnused() {
    Assign();
    std::vector<bool> used(chosen_.size(), false);
    for (const Held& held : held_) {
      if (held.bucket >= 0) used[static_cast<size_t>(held.bucket)] = true;
    }
    std::vector<ShapeBucket> kept;
    for (size_t b = 0; b < chosen_.size(); ++b) {
      if (used[b]) kept.push_back(std::move(chosen_[b]));
    }
    chosen_ = std::move(kept);
  }

 private:
  struct Held {
    int bucket = -1;    // the cheapest; -1: outside
    double cost = 0;    // of all runs of the load
    double second = 0;  // in the next best one; infinite without
  };

  void Assign() {
    held_.clear();
    total_ = 0;
    for (const Point& point : part_) {
      double first = kNever, second = kNever;
      Held held;
      for (size_t b = 0; b < chosen_.size(); ++b) {
        if (!HoldsPoint(chosen_[b].sizes, point.sizes)) continue;
        const double cost = point.runs * compiled_(chosen_[b].sizes);
        if (cost < first) {
          second = first;
          first = cost;
          held.bucket = static_cast<int>(b);
        } else {
          second = std::min(second, cost);
        }
      }
      held.cost = held.bucket < 0 ? point.outside : first;
      held.second = second;
      total_ += held.cost;
      held_.push_back(held);
    }
  }

  // Also where a bucket takes a load that ran cheaper outside.
  double GainOf(const ShapeBucket& bucket) const {
    const double cost = compiled_(bucket.sizes);
    double gain = 0;
    for (size_t p = 0; p < part_.size(); ++p) {
      if (!HoldsPoint(bucket.sizes, part_[p].sizes)) continue;
      const double saved = held_[p].cost - part_[p].runs * cost;
      if (saved > 0 || held_[p].bucket < 0) gain += saved;
    }
    return gain;
  }

  // What the exchange of the best bucket to lose for `bucket` saves, and which
  // that is.
  std::pair<double, size_t> BestExchange(const ShapeBucket& bucket) {
    const double cost = compiled_(bucket.sizes);
    double gain = 0;
    losses_.assign(chosen_.size(), 0);
    for (size_t p = 0; p < part_.size(); ++p) {
      const Held& held = held_[p];
      double now = held.cost;
      double without = held.second;
      if (HoldsPoint(bucket.sizes, part_[p].sizes)) {
        const double offer = part_[p].runs * cost;
        // Outside is no choice where a bucket holds the load.
        now = held.bucket < 0 ? offer : std::min(now, offer);
        without = std::min(without, offer);
      } else if (without == kNever) {
        without = part_[p].outside;
      }
      gain += held.cost - now;
      if (held.bucket >= 0) {
        losses_[static_cast<size_t>(held.bucket)] += without - now;
      }
    }
    const auto least = std::min_element(losses_.begin(), losses_.end());
    return {gain - *least, static_cast<size_t>(least - losses_.begin())};
  }

  const Part& part_;
  const RunCost compiled_;
  std::vector<ShapeBucket> candidates_;
  std::vector<ShapeBucket> chosen_;
  std::vector<Held> held_;  // by point, of chosen_
  double total_ = 0;
  std::vector<double> losses_;  // of BestExchange, kept for its memory
};

// Every combination of sizes that occur, thinned where they are too many.
std::vector<ShapeBucket> ProductOfSizes(const Part& part,
                                        const std::vector<size_t>& varying) {
  size_t each = kInnerSizes;
  while (each > 1 && std::pow(each, varying.size()) > kMaxCandidates) --each;
  std::vector<ShapeBucket> buckets = {{part.front().sizes}};
  for (const size_t dimension : varying) {
    std::map<int64_t, double> weights;
    for (const Point& point : part) {
      weights[point.sizes[dimension]] += point.runs;
    }
    std::vector<ShapeBucket> longer;
    for (const int64_t size : Thin(weights, each)) {
      for (ShapeBucket& bucket : buckets) {
        bucket.sizes[dimension] = size;
        longer.push_back(bucket);
      }
    }
    buckets = std::move(longer);
  }
  return buckets;
}

// --- all of it ---

// One part: its least cost by number of buckets, and those buckets.
class PartSolver {
 public:
  PartSolver(Part part, size_t rank, const RunCost& compiled,
             size_t max_buckets)
      : part_(std::move(part)), compiled_(compiled) {
    for (size_t d = 0; d < rank; ++d) {
      const bool varies =
          std::any_of(part_.begin(), part_.end(), [&](const Point& point) {
            return point.sizes[d] != part_.front().sizes[d];
          });
      if (varies) varying_.push_back(d);
    }
    if (varying_.size() <= 2) {
      grid_.emplace(part_, varying_, compiled_, max_buckets);
      curve_ = grid_->curve();
    } else {
      Exchange greedy(part_, compiled_, ProductOfSizes(part_, varying_));
      curve_ = greedy.AddGreedily(max_buckets);
    }
  }

  const std::vector<double>& curve() const { return curve_; }

  std::vector<ShapeBucket> Buckets(size_t count) const {
    if (varying_.size() < 2) return grid_->Buckets(count);
    Exchange greedy(part_, compiled_,
                    grid_.has_value() ? grid_->Candidates()
                                      : ProductOfSizes(part_, varying_));
    greedy.AddGreedily(count);
    greedy.Improve();
    if (!grid_.has_value()) return greedy.chosen();
    // Groups that share buckets are beyond the dynamic programme, sets that are
    // far from the greedy one beyond exchanges: take the better.
    Exchange exchange(part_, compiled_, grid_->Candidates());
    exchange.chosen() = grid_->Buckets(count);
    exchange.DropUnused();
    exchange.AddGreedily(count);
    exchange.Improve();
    if (greedy.Cost() < exchange.Cost()) return greedy.chosen();
    return exchange.chosen();
  }

 private:
  const Part part_;
  const RunCost compiled_;
  std::vector<size_t> varying_;     // dimensions
  std::optional<GridSolver> grid_;  // with at most two of them
  std::vector<double> curve_;
};

// By the sizes of what can't be padded.
std::vector<Part> SplitIntoParts(const BucketProblem& problem) {
  std::map<DimensionSizes, std::map<DimensionSizes, Point>> parts;
  for (const ShapeLoad& load : problem.loads) {
    if (load.runs <= 0 || !HoldsPoint(problem.largest, load.sizes)) continue;
    DimensionSizes fixed;
    for (size_t d = 0; d < load.sizes.size(); ++d) {
      if (!problem.paddable[d]) fixed.push_back(load.sizes[d]);
    }
    Point& point = parts[fixed][load.sizes];
    point.sizes = load.sizes;
    point.runs += load.runs;
    point.outside += load.runs * OutsideCost(problem, load);
  }
  std::vector<Part> split;
  for (const auto& [fixed, points] : parts) {
    Part part;
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
  std::vector<Part> parts = SplitIntoParts(problem);
  std::vector<PartSolver> solvers;
  solvers.reserve(parts.size());
  std::vector<Shared> shared = {{.curve = {0}, .right = {0}}};
  for (Part& part : parts) {
    solvers.emplace_back(std::move(part), problem.paddable.size(),
                         problem.compiled, most);
    shared.push_back(Share(shared.back().curve, solvers.back().curve(), most));
  }
  std::vector<ShapeBucket> proposal;
  size_t count = most;
  for (size_t part = solvers.size(); part > 0; --part) {
    const Shared& all = shared[part];
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
