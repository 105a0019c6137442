// Runs a scenario against a server, step by step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/generator/client.h"
#include "loadtest/generator/scenario.h"
#include "loadtest/generator/step_result.h"

namespace stoker::loadtest {

struct RunOptions {
  std::string address;      // host:port
  std::string metrics_url;  // empty: none
  int server_pid = 0;       // on this machine: its memory is watched; 0: none
  absl::Duration connect_timeout = absl::Seconds(10);
  // Called when a step is over, and with what a search is doing.
  std::function<void(const StepResult&)> on_step = [](const StepResult&) {};
  std::function<void(const std::string&)> on_progress = [](const std::string&) {
  };
};

struct RunResult {
  inference::ServerMetadataResponse server;
  inference::ModelMetadataResponse model;
  int threads = 1;
  size_t messages = 0;  // distinct ones
  size_t message_bytes = 0;
  std::vector<StepResult> steps;
};

// Connects, makes the requests, tries one, and runs all steps. Errors: no
// server, a model that it does not have, a scenario that does not fit the
// model, a first request that is refused, a rate_of_peak after a search that
// found none (FAILED_PRECONDITION).
absl::StatusOr<RunResult> RunScenario(const Scenario& scenario,
                                      const RunOptions& options);

}  // namespace stoker::loadtest
