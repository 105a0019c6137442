// A scenario from command-line flags instead of a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "loadtest/generator/scenario.h"

namespace stoker::loadtest {

// What a quick run is made of, as on the command line.
struct Quick {
  std::string model, version;
  std::vector<int> concurrency;
  std::vector<double> rates;
  std::string arrivals = "poisson";
  std::vector<std::string> sizes, ranges;
  double warmup_seconds = 1, measure_seconds = 5, slo_ms = 100;
  double timeout_ms = 0;
  int connections = 4, threads = 0, messages = 256;
  uint64_t seed = 1;
  bool stream = false, check_answers = false;
};

void AddQuickFlags(CLI::App& app, Quick& quick);

// INVALID_ARGUMENT says which flag was expected how.
absl::StatusOr<Scenario> MakeScenario(const Quick& quick);

// "name=value" cut in two; INVALID_ARGUMENT with `expected` where there is no
// name.
absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(
    const std::string& text, const char* expected);

}  // namespace stoker::loadtest
