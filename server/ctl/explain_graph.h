// `stokerctl explain-graph`: what a model's graph is made of, what
// TorchInductor makes of it, and where the time of a run goes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ctl/plan_commands.h"

namespace stoker {

class CommandLine;

struct GraphQuestion {
  std::string model;
  std::string bucket;           // "batch=8,tokens=32"; empty: the largest
  std::string html;             // file for the report as a page; empty: none
  std::string compiler_python;  // as for stokerd
  std::string compiler_folder;
};

// Has compiler/explain compile the bucket of the model's newest version and
// measure it, telling its phases on stderr, and prints the report. Returns 0,
// and kFound for a program that can't be compiled or run. NOT_FOUND without the
// model or the bucket, UNAVAILABLE without a compiler, INTERNAL with its last
// words when it fails.
absl::StatusOr<int> ExplainGraph(const PlanCommands& with,
                                 const GraphQuestion& question);

void AddExplainGraphCommand(CommandLine& line);

}  // namespace stoker
