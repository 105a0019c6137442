// Figures of the models by the names that Triton gives them, for dashboards and
// autoscalers that know those: --metrics-compat triton. They are those that
// ModelStatistics reports, read when somebody looks; nothing is counted for
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "metrics/metrics.h"
#include "models/model_manager.h"

namespace stoker {

struct TritonFigures {
  std::string model;
  int64_t version = 0;
  StatsSnapshot stats;
  double pending = 0;  // requests that wait for a run
};

// Of all versions that serve, which is what ModelStatistics lists. Any thread.
std::vector<TritonFigures> ReadTritonFigures(const ModelManager& manager,
                                             const MetricRegistry& metrics);

// The lines, Prometheus text format 0.0.4; nothing for no versions.
std::string TritonMetrics(absl::Span<const TritonFigures> versions);

}  // namespace stoker
