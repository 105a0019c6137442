// What may wait in a queue, how long, and what becomes of it then. Field names
// and meanings are those of Triton's ModelQueuePolicy and ModelDynamicBatching.
// Plain values.
#pragma once

#include <vector>

#include "absl/time/time.h"

namespace stoker {

enum class TimeoutAction {
  kReject,  // the task ends with "Request timeout expired"
  kDelay,   // it runs when no task waits that is still in time
};

struct QueuePolicy {
  TimeoutAction timeout_action = TimeoutAction::kReject;
  absl::Duration default_timeout = absl::InfiniteDuration();
  // Whether a request may bring a timeout of its own; it can only shorten the
  // default.
  bool allow_timeout_override = true;
  int max_queue_size = 1024;
};

struct DynamicBatching {
  // A device thread that is free waits this long for more tasks, from the
  // arrival of the first, when a fuller batch would cost less per row.
  absl::Duration max_queue_delay = absl::ZeroDuration();
  // Numbers of rows that are not waited with.
  std::vector<int> preferred_batch_sizes;
  // Tasks are run and answered in the order of their arrival.
  bool preserve_ordering = false;
  int default_priority_level = 1;
  // By priority level, 1 first: at least one.
  std::vector<QueuePolicy> policies = std::vector<QueuePolicy>(1);
};

}  // namespace stoker
