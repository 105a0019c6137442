// What the checks found about each compiled bucket: `stokerctl parity`. Reads
// the verdicts beside the artifacts; runs nothing.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ctl/plan_commands.h"

namespace stoker {

class CommandLine;

// A table, a row for each bucket of the model (of all for an empty name). Where
// `save_folder` is given, the inputs and both answers of each bucket that was
// refused by parity are written there, as
// <model>-<version>-<bucket>.safetensors. Returns kFound when a bucket was
// refused by parity or has no verdict.
absl::StatusOr<int> ShowParity(const PlanCommands& with,
                               const std::string& model,
                               const std::string& save_folder);

void AddParityCommand(CommandLine& line);

}  // namespace stoker
