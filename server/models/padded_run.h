// Runs a model on inputs of any sizes that a bucket holds, as the batcher
// would: padded up to the bucket, and its outputs cut back.
//
// Not thread-safe; runs on the thread that owns the ExecutionContext.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "batching/batch_layout.h"
#include "batching/gather.h"
#include "repository/model_spec.h"
#include "runner/executable.h"
#include "tensor/shape_bucket.h"

namespace stoker {

BatchLayout LayoutOf(const ModelSpec& spec);

// Shape of an input in a request or run of these sizes; 2 along a dimension
// that the program leaves open.
Shape ShapeOf(const InputSpec& input, absl::Span<const int64_t> sizes);

// Tensors of these sizes without data, to ask Executable::Takes.
std::vector<Tensor> ShapesOf(const ModelSpec& spec,
                             absl::Span<const int64_t> sizes);

// Those of the sizes that the executable is for.
std::vector<DimensionSizes> SizesTaken(const ModelSpec& spec,
                                       std::vector<DimensionSizes> sizes,
                                       const Executable& executable);

// What an executable of the bucket is run with first: the bucket's sizes; of a
// form the first of those that it is tried at and takes. FAILED_PRECONDITION:
// it takes none.
absl::StatusOr<DimensionSizes> SizesToRun(const ModelSpec& spec,
                                          const ShapeBucket& bucket,
                                          const Executable& executable);

// Inputs of `sizes`, padded to the bucket as the batcher does.
std::vector<Tensor> PaddedInputs(const BatchLayout& layout,
                                 absl::Span<const Tensor> inputs,
                                 const DimensionSizes& sizes,
                                 const ShapeBucket& bucket);

class PaddedRun {
 public:
  // The layout outlives this object.
  explicit PaddedRun(const BatchLayout& layout)
      : layout_(layout), gatherer_(layout) {}

  // `inputs` have `sizes`; the run has the bucket's, and the outputs `sizes`
  // again. A fault of a row that padding added counts.
  absl::StatusOr<RunResult> Run(Executable& executable,
                                ExecutionContext& context,
                                absl::Span<const Tensor> inputs,
                                const DimensionSizes& sizes,
                                const ShapeBucket& bucket);

 private:
  const BatchLayout& layout_;
  Gatherer gatherer_;
};

}  // namespace stoker
