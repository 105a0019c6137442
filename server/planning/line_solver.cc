#include "planning/line_solver.h"

#include <algorithm>
#include <utility>

#include "planning/load_part.h"

namespace stoker {

LineSolver::LineSolver(const Line& line, size_t max_buckets, bool keep_cuts)
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

std::vector<size_t> LineSolver::Ends(size_t buckets) const {
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

void LineSolver::Fill(const std::vector<double>& before, size_t begin,
                      size_t end, size_t low, size_t high, Row& row) const {
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

void LineSolver::AddRow(Row row) {
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

SharedBuckets ShareBuckets(const std::vector<double>& left,
                           const std::vector<double>& right,
                           size_t max_buckets) {
  const size_t most = std::min(max_buckets, left.size() + right.size() - 2);
  SharedBuckets shared{std::vector<double>(most + 1, kNever),
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

}  // namespace stoker
