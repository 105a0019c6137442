// A model whose answers are its rows as they came, and how to ask a version of
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
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

// An answer that comes when it is there. Thread-safe.
class LaterAnswer {
 public:
  void Come(absl::StatusOr<InferResult> answer) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    answer_ = std::move(answer);
    come_ = true;
  }
  bool come() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return come_;
  }
  absl::StatusOr<InferResult> Await() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&come_));
    return answer_;
  }

 private:
  mutable absl::Mutex mu_;
  absl::StatusOr<InferResult> answer_ ABSL_GUARDED_BY(mu_) =
      absl::UnknownError("");
  bool come_ ABSL_GUARDED_BY(mu_) = false;
};

// What a version, or a handle of one, will answer to a request of so many rows.
template <typename Version>
std::shared_ptr<LaterAnswer> AskLater(
    Version& version, int64_t rows,
    MonotonicTime deadline = MonotonicTime::InfiniteFuture(),
    std::shared_ptr<std::atomic<bool>> cancelled = nullptr) {
  auto task = std::make_unique<InferTask>();
  task->inputs = {
      MakeTensor<float>(DataType::kFp32, {rows},
                        std::vector<float>(static_cast<size_t>(rows), 1))};
  task->sizes = {rows};
  task->rows = rows;
  task->deadline = deadline;
  task->cancelled = std::move(cancelled);
  auto answer = std::make_shared<LaterAnswer>();
  task->on_done = [answer](absl::StatusOr<InferResult> result) {
    answer->Come(std::move(result));
  };
  if (absl::Status status = version.Submit(task); !status.ok()) {
    answer->Come(status);
  }
  return answer;
}

// What it answers.
template <typename Version>
absl::StatusOr<InferResult> AskForRows(Version& version, int64_t rows) {
  return AskLater(version, rows)->Await();
}

}  // namespace stoker
