// The steps of an ensemble of Triton's as a model.yaml has them. Private to
// this room.
//
// Thread-safe: pure functions.
#pragma once

#include <functional>
#include <string>

#include "repository/config_pbtxt.h"

namespace stoker {

// `add` is told each line of the text, with the one that it comes from;
// mistakes are noted in `root`'s notes. The configuration has
// ensemble_scheduling.
void WriteEnsemble(const triton::ModelConfig& config, const PbtxtMessage& root,
                   const std::function<void(int, const std::string&)>& add);

}  // namespace stoker
