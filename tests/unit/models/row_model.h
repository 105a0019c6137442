// A model whose answers are its rows as they came, and how to ask a version of
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/model_version.h"
#include "tests/fakes/tensors.h"

namespace stoker {

// y = x, row by row; up to 8 rows of several requests run together.
inline std::shared_ptr<ModelSpec> RowModel(std::vector<ShapeBucket> buckets) {
  auto spec = std::make_shared<ModelSpec>();
  spec->name = "rows";
  spec->program_path = "/models/rows/1/model.pt2";
  spec->program_digest = std::string(64, 'a');
  spec->dimensions = {{"batch", "s0", 1, 64, true}};
  spec->inputs.resize(1);
  spec->inputs[0].name = "x";
  spec->inputs[0].dims = {DimExpr::Dimension(0)};
  spec->outputs = {{"y", DataType::kFp32, {DimExpr::Dimension(0)}}};
  spec->batch_dimension = 0;
  spec->max_batch_size = 8;
  spec->buckets = std::move(buckets);
  return spec;
}

// What a version, or a handle of one, answers to a request of so many rows.
template <typename Version>
absl::StatusOr<InferResult> AskForRows(Version& version, int64_t rows) {
  auto task = std::make_unique<InferTask>();
  task->inputs = {
      MakeTensor<float>(DataType::kFp32, {rows},
                        std::vector<float>(static_cast<size_t>(rows), 1))};
  task->sizes = {rows};
  task->rows = rows;
  absl::Mutex mu;
  absl::StatusOr<InferResult> answer = absl::UnknownError("");
  bool done = false;
  task->on_done = [&](absl::StatusOr<InferResult> result) {
    const absl::MutexLock lock(&mu);
    answer = std::move(result);
    done = true;
  };
  if (absl::Status status = version.Submit(task); !status.ok()) return status;
  const absl::MutexLock lock(&mu);
  mu.Await(absl::Condition(&done));
  return answer;
}

}  // namespace stoker
