// A model small enough that a test knows every answer: dimensions batch and
// tokens,
//
//   ids   INT64 [batch,tokens], padded with 0       shifted INT32
//   [batch,2,tokens,3] bias  FP32  [batch]                             sum FP32
//   [batch]
//
// shifted[b,k,t,j] = 10 * ids[b,t] + 3 * k + j, and sum[b] = bias[b] + all
// ids[b]. Certain ids make a run misbehave.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "batching/batch_layout.h"
#include "batching/batch_runner.h"
#include "batching/infer_task.h"

namespace stoker {

inline constexpr int64_t kFaultyRowId = -1;  // a RowFault in each of its rows
inline constexpr int64_t kFaultyNowhereId = -2;  // a RowFault with row -1
inline constexpr int64_t kFailingId = -3;        // the run ends with INTERNAL
inline constexpr int64_t kRefusedId = -4;  // the run ends with INVALID_ARGUMENT

BatchLayout TokenLayout(int64_t max_batch_rows);

BatchRunner::Outcome RunTokenModel(int bucket, absl::Span<const Tensor> inputs);

// A task of ids, in rows of one length; bias[b] is b + 0.5. No on_done yet.
std::unique_ptr<InferTask> MakeTokenTask(
    const std::vector<std::vector<int64_t>>& ids);

// Expects the answer that ids must have.
void ExpectRightAnswer(const absl::StatusOr<InferResult>& result,
                       const std::vector<std::vector<int64_t>>& ids);

}  // namespace stoker
