// The arguments of commands that are about a model repository, and about the
// host that will serve it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ctl/plan_commands.h"
#include "kernel_cache/kernel_cache.h"
#include "repository/model_repository.h"
#include "runner/toolchain.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stoker {

struct RepositoryArguments {
  std::string repository;
  std::string model_name;
  std::vector<std::string> operator_libraries;
  std::string cxx;
  std::string gpu;
  int cores = 0;      // 0: those here
  std::string model;  // empty: all of them

  // All but `model`; returns --model-repository, which may be left out.
  CLI::Option* AddOptions(CLI::App& to);
  // With --model-repository required, and the model as positional argument,
  // which may be left out.
  void AddAll(CLI::App& to);

  absl::StatusOr<std::unique_ptr<ModelRepository>> Open() const;
  absl::StatusOr<Toolchain> ToolchainOfHost() const;
  int Cores() const;

  // Calls `command` with the repository, opened.
  template <typename Command>
  auto Plan(KernelCache& cache, bool json, Command command) const
      -> std::invoke_result_t<Command, const PlanCommands&, const std::string&>;
};

template <typename Command>
auto RepositoryArguments::Plan(KernelCache& cache, bool json,
                               Command command) const
    -> std::invoke_result_t<Command, const PlanCommands&, const std::string&> {
  const absl::StatusOr<std::unique_ptr<ModelRepository>> opened = Open();
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Toolchain> toolchain = ToolchainOfHost();
  if (!toolchain.ok()) return toolchain.status();
  const PlanCommands plan{.cache = cache,
                          .repository = **opened,
                          .toolchain = *std::move(toolchain),
                          .cores = Cores(),
                          .json = json};
  return std::invoke(command, plan, model);
}

}  // namespace stoker
