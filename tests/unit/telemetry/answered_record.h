// A request that was answered.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "telemetry/request_record.h"

namespace stoker {

// Three rows in a batch of six, after 700 us: 150 until it left the queue, 160
// until the work on its batch began, which took 515.
inline RequestRecord AnsweredRecord(absl::Time arrived, uint64_t batch) {
  RequestRecord record;
  record.id = "r-1";
  record.model = "minilm";
  record.version = 2;
  record.bucket = "batch=8";
  record.tier = "aot";
  record.rows = 3;
  record.batch_rows = 6;
  record.arrived = arrived;
  record.batch = batch;
  record.thread = 1;
  record.dequeued = absl::Microseconds(150);
  record.queue = absl::Microseconds(100);
  record.begun = absl::Microseconds(160);
  record.assemble = absl::Microseconds(10);
  record.run = absl::Microseconds(500);
  record.split = absl::Microseconds(5);
  record.total = absl::Microseconds(700);
  return record;
}

}  // namespace stoker
