// What one step of a scenario found, and the judgements that follow from it.
// Plain values.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/generator/load_run.h"
#include "loadtest/generator/rate_search.h"
#include "loadtest/generator/scenario.h"

namespace stoker::loadtest {

struct StepResult {
  Step step;
  bool open = false;
  double rate = 0;  // open loop: due per second as asked for
  LoadResult load;
  nlohmann::ordered_json server;  // FiguresBetween; empty: not known
  std::optional<SearchOutcome> search;
  // Why this measures the client rather than the server; empty when it doesn't.
  std::vector<std::string> client_limits;
};

// Answers per second within the measured time.
double Throughput(const StepResult& result);
// Measured answers within the SLO's latency, per second.
double Goodput(const StepResult& result);

// Reasons to take a run for a measurement of the client: requests not sent or
// sent late, a thread or all cores of the client busy.
std::vector<std::string> FindClientLimits(const LoadResult& load, bool open);

// Whether a run at `rate` meets the SLO, and if not, why.
RateTrial JudgeTrial(double rate, const LoadResult& load, const Slo& slo);

// {"name", "load", "throughput_per_s", "latency_ms": {...}, ...}; the README
// explains the fields.
nlohmann::ordered_json StepJson(const StepResult& result, const Slo& slo);

// One line for a terminal; StepTitle is its head.
std::string StepTitle();
std::string StepLine(const StepResult& result);

}  // namespace stoker::loadtest
