// What is told of an inference that is over. Pure, but for the telling.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "batching/infer_task.h"
#include "models/model_manager.h"
#include "rpc/infer_caller.h"
#include "telemetry/request_record.h"

namespace stoker {

// The status, with its text where that can't hold a value of a tensor: what is
// wrong with a request may name one, what the server lacks doesn't.
void DescribeStatus(const absl::Status& status, RequestRecord& record);

// What ran, of a request that arrived then.
void DescribeRun(const ModelHandle& handle, const InferResult& result,
                 MonotonicTime arrival, RequestRecord& record);

}  // namespace stoker
