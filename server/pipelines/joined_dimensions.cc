#include "pipelines/joined_dimensions.h"

#include <algorithm>
#include <utility>

namespace stoker {

int JoinedDimensions::Add(Dimension dimension) {
  dimension.root = static_cast<int>(all_.size());
  all_.push_back(std::move(dimension));
  return all_.back().root;
}

JoinedDimensions::Dimension& JoinedDimensions::Root(int dimension) {
  while (all_[At(dimension)].root != dimension) {
    dimension = all_[At(dimension)].root;
  }
  return all_[At(dimension)];
}

bool JoinedDimensions::Join(int a, int b) {
  Dimension& one = Root(a);
  Dimension& other = Root(b);
  if (one.root == other.root) return true;
  one.min = std::max(one.min, other.min);
  one.max = std::min(one.max, other.max);
  if (other.max_batch.has_value()) {
    const int64_t most = one.max_batch.value_or(0);
    one.max_batch = most == 0               ? *other.max_batch
                    : *other.max_batch == 0 ? most
                                            : std::min(most, *other.max_batch);
  }
  const std::optional<int64_t> constant = other.constant;
  other.root = one.root;
  if (constant.has_value()) return Fix(a, *constant);
  return one.constant.has_value() ? Fix(a, *one.constant) : one.min <= one.max;
}

bool JoinedDimensions::Fix(int dimension, int64_t size) {
  Dimension& root = Root(dimension);
  if (root.constant.value_or(size) != size) return false;
  root.constant = size;
  return size >= root.min && size <= root.max;
}

}  // namespace stoker
