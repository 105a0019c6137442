#include "ctl/repository_arguments.h"

#include "CLI/CLI.hpp"
#include "base/cgroup_limits.h"
#include "base/status_macros.h"
#include "program/operator_libraries.h"

namespace stoker {

CLI::Option* RepositoryArguments::AddOptions(CLI::App& to) {
  CLI::Option* const option =
      to.add_option("--model-repository", repository, "as for stokerd")
          ->check(CLI::ExistingDirectory);
  to.add_option("--model-name", model_name, "as for stokerd");
  to.add_option("--operator-library", operator_libraries, "as for stokerd");
  to.add_option("--cxx", cxx, "as for stokerd");
  to.add_option("--cores", cores,
                "of the host that will serve; those here unless given")
      ->check(CLI::Range(1, 4096));
  to.add_option("--gpu", gpu,
                "of the host that will serve, for models on one: "
                "architecture, multiprocessors, GiB, driver's branch, as in "
                "sm_90:132:79:580")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto target = ParseGpuTarget(text);
            return target.ok() ? std::string()
                               : std::string(target.status().message());
          },
          ""));
  return option;
}

void RepositoryArguments::AddAll(CLI::App& to) {
  to.add_option("model", model, "one model; all of them unless given");
  AddOptions(to)->required();
}

absl::StatusOr<std::unique_ptr<ModelRepository>> RepositoryArguments::Open()
    const {
  RETURN_IF_ERROR(AllowOperatorLibraries(operator_libraries).status());
  return ModelRepository::Open(repository, model_name);
}

absl::StatusOr<Toolchain> RepositoryArguments::ToolchainOfHost() const {
  Toolchain toolchain = HostToolchain(cxx);
  if (!gpu.empty()) {
    ASSIGN_OR_RETURN(toolchain.gpu, ParseGpuTarget(gpu));
  }
  return toolchain;
}

int RepositoryArguments::Cores() const {
  return cores > 0 ? cores : UsableCores();
}

}  // namespace stoker
