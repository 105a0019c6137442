// The result of a scenario as one JSON document: what ran, where, against what,
// and every step.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "loadtest/generator/scenario_run.h"

namespace stoker::loadtest {

// `labels` are the operator's own words, such as the commit that was measured.
nlohmann::ordered_json ResultJson(
    const Scenario& scenario, const std::string& address,
    const RunResult& result, const std::map<std::string, std::string>& labels);

// Creates or replaces the file; the errno's code and the path on failure.
absl::Status WriteText(const std::string& path, const std::string& text);

}  // namespace stoker::loadtest
