// Tells who wants to know of a piece of work on a version.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "models/version_deps.h"
#include "repository/model_spec.h"
#include "telemetry/telemetry.h"
#include "telemetry/work_record.h"

namespace stoker {

// It is over just now. `telemetry` null: nobody wants to know.
inline void TellWork(Telemetry* telemetry, Clock& clock, WorkRecord record,
                     MonotonicTime began, const absl::Status& status) {
  if (telemetry == nullptr) return;
  record.took = clock.Now() - began;
  record.began = clock.WallNow() - record.took;
  if (!status.ok()) record.error = std::string(status.message());
  telemetry->Tell(std::move(record));
}

}  // namespace stoker
