#include "batching/batch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace stoker {
namespace {

// Whether any part of the expression is unknown. Sizes of 1 stay clear of
// overflows and of most divisions by zero; an expression that is taken for
// unknown by mistake only costs its model the batching.
bool IsUnknown(const DimExpr& dim, size_t dimensions) {
  const DimensionSizes ones(dimensions, 1);
  return !dim.Evaluate(ones).has_value();
}

bool HasUnknownOutput(const BatchLayout& layout) {
  for (const BatchLayout::Output& output : layout.outputs) {
    for (const DimExpr& dim : output.dims) {
      if (IsUnknown(dim, layout.paddable.size())) return true;
    }
  }
  return false;
}

bool HasRows(const std::vector<DimExpr>& dims, int batch_dimension) {
  if (dims.empty() || !dims[0].is_dimension() ||
      dims[0].dimension() != batch_dimension) {
    return false;
  }
  return std::none_of(dims.begin() + 1, dims.end(), [&](const DimExpr& dim) {
    return dim.DependsOn(batch_dimension);
  });
}

bool AllHaveRows(const BatchLayout& layout) {
  if (!layout.batch_dimension) return false;
  const auto has_rows = [&](const auto& tensor) {
    return HasRows(tensor.dims, *layout.batch_dimension);
  };
  return std::all_of(layout.inputs.begin(), layout.inputs.end(),
                     [&](const BatchLayout::Input& input) {
                       return input.batch_input.has_value() || has_rows(input);
                     }) &&
         std::all_of(layout.outputs.begin(), layout.outputs.end(),
                     [&](const BatchLayout::Output& output) {
                       return has_rows(output) || layout.HasTasks(output.dims);
                     });
}

absl::Status CheckInput(const BatchLayout::Input& expected,
                        const Tensor& tensor, const DimensionSizes& sizes,
                        size_t index) {
  Shape shape;
  for (const DimExpr& dim : expected.dims) {
    shape.push_back(dim.Evaluate(sizes).value_or(-1));
  }
  const std::optional<int64_t> count = ElementCount(shape);
  const size_t element_size = DataTypeSize(expected.dtype);
  if (count && element_size != 0 && tensor.dtype == expected.dtype &&
      tensor.shape == shape &&
      tensor.byte_size / element_size == static_cast<size_t>(*count) &&
      tensor.byte_size % element_size == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", index, " of the task: expected ",
      std::string(DataTypeName(expected.dtype)), " ", ShapeString(shape),
      ", got ", std::string(DataTypeName(tensor.dtype)), " ",
      ShapeString(tensor.shape), " in ", tensor.byte_size, " bytes"));
}

std::vector<ShapeBucket> Buckets(const BatchRunner& runner) {
  std::vector<ShapeBucket> buckets;
  for (int i = 0; i < runner.bucket_count(); ++i) {
    buckets.push_back(runner.bucket(i));
  }
  return buckets;
}

}  // namespace

BatchRules::BatchRules(const BatchLayout& layout, const BatchRunner& runner)
    : layout_(layout),
      runner_(runner),
      exact_(HasUnknownOutput(layout)),
      mergeable_(!exact_ && AllHaveRows(layout)),
      lanes_(Buckets(runner), layout.paddable, layout.batch_dimension) {}

absl::Status BatchRules::CheckTask(const InferTask& task) const {
  if (task.sizes.size() != layout_.paddable.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes of the task: expected ", layout_.paddable.size(),
                     " dimensions, got ", ShapeString(task.sizes)));
  }
  const int64_t rows =
      layout_.batch_dimension ? task.sizes[*layout_.batch_dimension] : 1;
  if (task.rows != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of the task: expected ", rows, " by its sizes ",
                     ShapeString(task.sizes), ", got ", task.rows));
  }
  if (task.inputs.size() != layout_.inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs of the task: expected ", layout_.inputs.size(),
                     ", got ", task.inputs.size()));
  }
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    absl::Status status =
        CheckInput(layout_.inputs[i], task.inputs[i], task.sizes, i);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

int BatchRules::BucketAlone(const InferTask& task) const {
  const int bucket = runner_.Match(task.sizes);
  if (exact_ && bucket >= 0 && runner_.bucket(bucket).sizes != task.sizes) {
    return -1;
  }
  return bucket;
}

Batch BatchRules::Begin(std::unique_ptr<InferTask> task,
                        MonotonicTime now) const {
  Batch batch;
  batch.sizes = task->sizes;
  batch.rows = task->rows;
  batch.bucket = BucketAlone(*task);
  batch.started = now;
  batch.tasks.push_back(std::move(task));
  return batch;
}

int BatchRules::LaneOf(const InferTask& task) const {
  return mergeable_ ? lanes_.Find(task.sizes) : -1;
}

Batch BatchRules::Assemble(std::vector<std::unique_ptr<InferTask>> tasks,
                           int bucket, MonotonicTime now) const {
  if (bucket < 0) return Begin(std::move(tasks.front()), now);
  Batch batch;
  batch.bucket = bucket;
  batch.started = now;
  batch.sizes = tasks.front()->sizes;
  for (const std::unique_ptr<InferTask>& task : tasks) {
    batch.rows += task->rows;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      batch.sizes[i] = std::max(batch.sizes[i], task->sizes[i]);
    }
  }
  int64_t longest = 0;
  for (const auto& task : tasks) longest = std::max(longest, task->rows);
  for (const BatchLayout::Input& input : layout_.inputs) {
    if (!input.batch_input.has_value()) continue;
    SetBatchInputSize(*input.batch_input, input.dims[0],
                      static_cast<int64_t>(tasks.size()), longest,
                      absl::MakeSpan(batch.sizes));
  }
  batch.sizes[static_cast<size_t>(*layout_.batch_dimension)] = batch.rows;
  batch.tasks = std::move(tasks);
  return batch;
}

absl::StatusOr<DimensionSizes> BatchRules::RunSizes(const Batch& batch) const {
  if (batch.bucket < 0) return batch.sizes;
  const DimensionSizes& sizes = runner_.bucket(batch.bucket).sizes;
  bool holds = sizes.size() == batch.sizes.size();
  for (size_t i = 0; holds && i < sizes.size(); ++i) {
    holds = batch.sizes[i] <= sizes[i];
  }
  if (!holds) {
    return absl::InternalError(
        absl::StrCat("bucket ", batch.bucket, " ", ShapeString(sizes),
                     " was matched for a batch of ", ShapeString(batch.sizes)));
  }
  return sizes;
}

}  // namespace stoker
