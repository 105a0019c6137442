// The dimensions of all models of a pipeline, joined where a tensor has one of
// each. Private to this room.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

class JoinedDimensions {
 public:
  struct Dimension {
    std::string name;
    int64_t min = 1;
    int64_t max = std::numeric_limits<int64_t>::max();
    std::optional<int64_t> constant;
    std::optional<int64_t> max_batch;  // it is some model's batch; 0: any
    int root = 0;
  };

  // Its number.
  int Add(Dimension dimension);
  // What all that are joined with it are.
  Dimension& Root(int dimension);
  // Both are one from now on. False: no size fits both.
  bool Join(int a, int b);
  // It has that size. False: it can't.
  bool Fix(int dimension, int64_t size);

 private:
  static size_t At(int index) { return static_cast<size_t>(index); }
  std::vector<Dimension> all_;
};

}  // namespace stoker
