#include "models/padded_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "batching/batch.h"
#include "batching/scatter.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

// Of a dimension that the program leaves open.
constexpr int64_t kUnboundedTestSize = 2;

// One request with these inputs.
Batch BatchOf(const BatchLayout& layout, absl::Span<const Tensor> inputs,
              const DimensionSizes& sizes) {
  auto task = std::make_unique<InferTask>();
  task->inputs.assign(inputs.begin(), inputs.end());
  task->sizes = sizes;
  if (layout.batch_dimension.has_value()) {
    task->rows = sizes[static_cast<size_t>(*layout.batch_dimension)];
  }
  Batch batch;
  batch.sizes = sizes;
  batch.rows = task->rows;
  batch.tasks.push_back(std::move(task));
  return batch;
}

}  // namespace

Shape ShapeOf(const InputSpec& input, absl::Span<const int64_t> sizes) {
  Shape shape;
  for (const DimExpr& dim : input.dims) {
    shape.push_back(dim.Evaluate(sizes).value_or(kUnboundedTestSize));
  }
  return shape;
}

BatchLayout LayoutOf(const ModelSpec& spec) {
  BatchLayout layout;
  for (const InputSpec& input : spec.inputs) {
    layout.inputs.push_back(
        {input.dtype, input.dims, input.pad_value, input.batch_input});
  }
  for (const OutputSpec& output : spec.outputs) {
    layout.outputs.push_back({output.dtype, output.dims});
  }
  layout.batch_dimension = spec.batch_dimension;
  layout.max_batch_rows = std::max<int64_t>(1, spec.max_batch_size);
  if (spec.ragged()) layout.max_batch_tasks = spec.max_ragged_requests;
  layout.paddable = Paddable(spec);
  return layout;
}

std::vector<Tensor> ShapesOf(const ModelSpec& spec,
                             absl::Span<const int64_t> sizes) {
  std::vector<Tensor> shapes;
  for (const InputSpec& input : spec.inputs) {
    Tensor& tensor = shapes.emplace_back();
    tensor.dtype = input.dtype;
    tensor.shape = ShapeOf(input, sizes);
  }
  return shapes;
}

std::vector<DimensionSizes> SizesTaken(const ModelSpec& spec,
                                       std::vector<DimensionSizes> sizes,
                                       const Executable& executable) {
  std::erase_if(sizes, [&](const DimensionSizes& one) {
    return !executable.Takes(ShapesOf(spec, one));
  });
  return sizes;
}

absl::StatusOr<DimensionSizes> SizesToRun(const ModelSpec& spec,
                                          const ShapeBucket& bucket,
                                          const Executable& executable) {
  if (!IsDynamic(bucket)) return bucket.sizes;
  std::vector<DimensionSizes> taken =
      SizesTaken(spec, SizesOfForm(spec, bucket), executable);
  if (!taken.empty()) return std::move(taken.front());
  return absl::FailedPreconditionError(
      "the compiled code takes none of the sizes that it was to be tried at");
}

std::vector<Tensor> PaddedInputs(const BatchLayout& layout,
                                 absl::Span<const Tensor> inputs,
                                 const DimensionSizes& sizes,
                                 const ShapeBucket& bucket) {
  const auto gatherer = std::make_shared<Gatherer>(layout);
  const absl::Span<const Tensor> gathered =
      gatherer->Gather(BatchOf(layout, inputs, sizes), bucket.sizes);
  std::vector<Tensor> padded(gathered.begin(), gathered.end());
  for (Tensor& tensor : padded) {
    if (tensor.owner == nullptr) tensor.owner = gatherer;
  }
  return padded;
}

absl::StatusOr<RunResult> PaddedRun::Run(Executable& executable,
                                         ExecutionContext& context,
                                         absl::Span<const Tensor> inputs,
                                         const DimensionSizes& sizes,
                                         const ShapeBucket& bucket) {
  const Batch batch = BatchOf(layout_, inputs, sizes);
  absl::StatusOr<RunResult> result =
      executable.Run(context, gatherer_.Gather(batch, bucket.sizes));
  gatherer_.Release();
  RETURN_IF_ERROR(result.status());
  RETURN_IF_ERROR(CheckOutputs(layout_, bucket.sizes, result->outputs));
  ASSIGN_OR_RETURN(result->outputs,
                   CutOutputs(layout_, result->outputs, sizes, 0));
  return result;
}

}  // namespace stoker
