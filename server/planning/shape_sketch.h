// How often each shape was seen, in bounded memory.
//
// As in Lossy Counting (Manku and Motwani, Approximate Frequency Counts over
// Data Streams, VLDB 2002) the rarest counters go in batches once the table is
// full. Unlike there, what goes is added to the smallest shape kept that holds
// it: a sum over all counts stays exact, and a shape is only ever taken for a
// larger one, never forgotten. Of the counters those go first whose merging
// adds the least padding.
//
// Counts fade: all are halved whenever they add up to `fade_at`, so that what
// was seen long ago weighs less than what is seen now.
//
// Thread-safe. Record of a shape that is known allocates nothing; making room
// takes about a millisecond for 512 shapes, once per 256 new ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct ShapeCount {
  DimensionSizes sizes;
  uint64_t count = 0;
  friend bool operator==(const ShapeCount&, const ShapeCount&) = default;
};

class ShapeSketch {
 public:
  static constexpr uint64_t kFadeAt = uint64_t{1} << 20;

  // At most `capacity` shapes, at least 2, are kept.
  explicit ShapeSketch(size_t capacity, uint64_t fade_at = kFadeAt);

  // All shapes of one sketch have equally many sizes.
  void Record(absl::Span<const int64_t> sizes, uint64_t count = 1)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Sorted by sizes.
  std::vector<ShapeCount> Counts() const ABSL_LOCKS_EXCLUDED(mu_);
  // What Counts add up to.
  uint64_t total() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(absl::Span<const int64_t> sizes) const {
      return absl::Hash<absl::Span<const int64_t>>()(sizes);
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(absl::Span<const int64_t> a,
                    absl::Span<const int64_t> b) const {
      return a == b;
    }
  };
  void MakeRoomLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FadeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t capacity_;
  const uint64_t fade_at_;

  mutable absl::Mutex mu_;
  absl::flat_hash_map<DimensionSizes, uint64_t, Hash, Equal> counts_
      ABSL_GUARDED_BY(mu_);
  uint64_t total_ ABSL_GUARDED_BY(mu_) = 0;
};

// At most `most` shapes, at least 1, that stand for the given ones: counts are
// merged into larger shapes as the sketch does it. Sorted by sizes.
std::vector<ShapeCount> MergeShapes(std::vector<ShapeCount> shapes,
                                    size_t most);

}  // namespace stoker
