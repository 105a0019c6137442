// What was told in a while as a timeline in Chrome's trace event format, which
// Perfetto, chrome://tracing and speedscope show: a row for each device thread
// with its batches, one each for loads and compiles, the requests, and how many
// wait. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "telemetry/request_record.h"
#include "telemetry/work_record.h"

namespace stoker {

struct Recording {
  absl::Time began;
  absl::Duration took;
  std::vector<RequestRecord> requests;
  std::vector<WorkRecord> work;
  size_t left_out = 0;  // there were more than there was room for
};

std::string TimelineJson(const Recording& recording);

}  // namespace stoker
