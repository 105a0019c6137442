#include "planning/shape_sketch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "planning/run_cost.h"

namespace stoker {
namespace {

constexpr size_t kNobody = std::numeric_limits<size_t>::max();

bool Less(const ShapeCount& a, const ShapeCount& b) {
  return a.sizes < b.sizes;
}

bool Holds(const DimensionSizes& larger, const DimensionSizes& smaller) {
  for (size_t i = 0; i < smaller.size(); ++i) {
    if (larger[i] < smaller[i]) return false;
  }
  return true;
}

// Where a shape would go, and how many elements that adds to what it counts.
struct Merge {
  size_t into = kNobody;
  double padding = std::numeric_limits<double>::infinity();
};

std::vector<Merge> CheapestMerges(const std::vector<ShapeCount>& shapes,
                                  const std::vector<double>& volumes) {
  std::vector<Merge> merges(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t j = 0; j < shapes.size(); ++j) {
      if (i == j || !Holds(shapes[j].sizes, shapes[i].sizes)) continue;
      const double padding =
          static_cast<double>(shapes[i].count) * (volumes[j] - volumes[i]);
      if (padding < merges[i].padding) merges[i] = {j, padding};
    }
  }
  return merges;
}

// Where no shape holds another, the only way is up: two neighbours become the
// smallest shape that holds both.
std::vector<ShapeCount> JoinNeighbours(std::vector<ShapeCount> shapes) {
  std::vector<ShapeCount> joined;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i % 2 == 0) {
      joined.push_back(std::move(shapes[i]));
      continue;
    }
    ShapeCount& last = joined.back();
    for (size_t d = 0; d < last.sizes.size(); ++d) {
      last.sizes[d] = std::max(last.sizes[d], shapes[i].sizes[d]);
    }
    last.count += shapes[i].count;
  }
  return joined;
}

// Sorted, and each shape once.
std::vector<ShapeCount> Tidy(std::vector<ShapeCount> shapes) {
  std::sort(shapes.begin(), shapes.end(), Less);
  std::vector<ShapeCount> tidy;
  for (ShapeCount& shape : shapes) {
    if (!tidy.empty() && tidy.back().sizes == shape.sizes) {
      tidy.back().count += shape.count;
    } else {
      tidy.push_back(std::move(shape));
    }
  }
  return tidy;
}

}  // namespace

std::vector<ShapeCount> MergeShapes(std::vector<ShapeCount> shapes,
                                    size_t most) {
  shapes = Tidy(std::move(shapes));
  most = std::max<size_t>(most, 1);
  if (shapes.size() <= most) return shapes;
  std::vector<double> volumes;
  for (const ShapeCount& shape : shapes) {
    volumes.push_back(Volume(shape.sizes));
  }
  const std::vector<Merge> merges = CheapestMerges(shapes, volumes);
  std::vector<size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return merges[a].padding < merges[b].padding;
  });
  order.resize(shapes.size() - most);
  // Small ones first: what they go into may go on itself.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return volumes[a] < volumes[b]; });
  std::vector<bool> gone(shapes.size(), false);
  for (const size_t i : order) {
    if (merges[i].into == kNobody || gone[merges[i].into]) continue;
    shapes[merges[i].into].count += shapes[i].count;
    gone[i] = true;
  }
  std::vector<ShapeCount> kept;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(shapes[i]));
  }
  if (kept.size() == shapes.size()) kept = JoinNeighbours(std::move(kept));
  return MergeShapes(std::move(kept), most);
}

ShapeSketch::ShapeSketch(size_t capacity, uint64_t fade_at)
    : capacity_(std::max<size_t>(capacity, 2)),
      fade_at_(std::max<uint64_t>(fade_at, 2)) {
  counts_.reserve(capacity_ + 1);
}

void ShapeSketch::Record(absl::Span<const int64_t> sizes, uint64_t count) {
  if (count == 0) return;
  absl::MutexLock lock(&mu_);
  auto known = counts_.find(sizes);
  if (known == counts_.end()) {
    known =
        counts_.emplace(DimensionSizes(sizes.begin(), sizes.end()), 0).first;
  }
  known->second += count;
  total_ += count;
  if (counts_.size() > capacity_) MakeRoomLocked();
  while (total_ >= fade_at_) FadeLocked();
}

void ShapeSketch::MakeRoomLocked() {
  std::vector<ShapeCount> shapes;
  for (const auto& [sizes, count] : counts_) shapes.push_back({sizes, count});
  counts_.clear();
  for (ShapeCount& shape : MergeShapes(std::move(shapes), capacity_ / 2)) {
    counts_[std::move(shape.sizes)] += shape.count;
  }
}

void ShapeSketch::FadeLocked() {
  total_ = 0;
  for (auto it = counts_.begin(); it != counts_.end();) {
    it->second /= 2;
    total_ += it->second;
    if (it->second == 0) {
      counts_.erase(it++);
    } else {
      ++it;
    }
  }
}

std::vector<ShapeCount> ShapeSketch::Counts() const {
  std::vector<ShapeCount> shapes;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [sizes, count] : counts_) shapes.push_back({sizes, count});
  }
  std::sort(shapes.begin(), shapes.end(), Less);
  return shapes;
}

uint64_t ShapeSketch::total() const {
  absl::MutexLock lock(&mu_);
  return total_;
}

}  // namespace stoker
