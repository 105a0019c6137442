// What a candidate is tried on: pure data, made from the spec.
#pragma once

#include <cstdint>
#include <vector>

#include "repository/model_spec.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct CaseSizes {
  uint64_t seed = 0;
  DimensionSizes sizes;
  bool padded = false;  // smaller than the bucket
};

// ParitySpec::cases sets of the bucket's own size and, between them, two that
// are padded up to it where anything may be: one short of it in every such
// dimension, and the least there can be.
std::vector<CaseSizes> ParityCases(const ModelSpec& spec,
                                   const ShapeBucket& bucket);

// Sizes that a dynamic form is tried at: the smallest that such code is for,
// the largest of the buckets', those in between, and each dimension at its own
// largest with all others small.
std::vector<DimensionSizes> SizesOfForm(const ModelSpec& spec,
                                        const ShapeBucket& form);
// How many of them, the first ones, it is timed at.
inline constexpr size_t kTimedSizesOfForm = 3;

// Whether a request of `sizes` can run in the bucket.
bool Fits(const ModelSpec& spec, const DimensionSizes& sizes,
          const ShapeBucket& bucket);

// For each dimension that requests may be padded along, sizes that fill the
// bucket but for it; those that can't be smaller are left out.
struct PaddedSizes {
  int dimension = 0;
  DimensionSizes sizes;
};
std::vector<PaddedSizes> PaddedAlongEach(const ModelSpec& spec,
                                         const ShapeBucket& bucket);

// Per dimension, whether requests may be padded along it.
std::vector<bool> Paddable(const ModelSpec& spec);

}  // namespace stoker
