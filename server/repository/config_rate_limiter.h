// What a config.pbtxt's rate limiters say of a model.yaml: `weight` and
// `resources`. Private to this room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "repository/config_pbtxt.h"

namespace stoker {

// Lines of a model.yaml, each with the line of the file that it comes from.
// `root`: of the whole file, whose notes get what can't be honoured.
std::vector<std::pair<int, std::string>> RateLimiterYaml(
    const triton::ModelConfig& config, const PbtxtMessage& root);

}  // namespace stoker
