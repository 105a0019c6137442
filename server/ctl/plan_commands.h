// What a start would find in the kernel cache: `stokerctl plan` and `stokerctl
// cache explain`. Nothing is compiled, opened or changed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel_cache/kernel_cache.h"
#include "planning/evidence_store.h"
#include "repository/model_repository.h"
#include "runner/toolchain.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

class CommandLine;

struct PlanCommands {
  KernelCache& cache;
  ModelRepository& repository;
  Toolchain toolchain;
  int cores = 1;
  bool json = false;

  // For each bucket of the model (of all for an empty name): a hit and where,
  // with what a start has to check of it, a miss with the nearest entry and the
  // factors that differ, its value first, or why the compiler refuses it.
  // Returns kFound when there is a miss.
  absl::StatusOr<int> Explain(const std::string& model) const;
  // Of every bucket that can have an artifact, each once. NOT_FOUND, with the
  // first that is missing.
  absl::StatusOr<std::vector<ArtifactKey>> Keys(const std::string& model) const;
  // How many compiles a start would need, and how long they took elsewhere.
  // Returns 0.
  absl::StatusOr<int> Plan(const std::string& model) const;

  // What was found out about the version's artifacts, and what counts here.
  EvidenceStore EvidenceOn(const ModelSpec& spec) const;
};

void AddPlanCommand(CommandLine& line);
// `stokerctl cache explain`; `to` is `cache`.
void AddCacheExplainCommand(CommandLine& line, CLI::App& to);

}  // namespace stoker
