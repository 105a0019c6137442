// A program compiled by AOTInductor for one bucket, opened from its unpacked
// cache entry, with weights borrowed from a WeightStore. Private to this room.
#pragma once

#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runner/artifact_manifest.h"
#include "runner/executable.h"
#include "runner/weight_store.h"

namespace stoker {

class AotExecutable : public Executable {
 public:
  // Reads manifest.json, checks the host and the constants, opens model.so and
  // binds. Nothing of the artifact's code runs before the checks have passed.
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      const std::string& entry_folder, std::shared_ptr<WeightStore> weights);

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return true; }
  int64_t host_bytes() const override { return code_bytes_; }
  bool Takes(absl::Span<const Tensor> inputs) const override;
  std::string_view tier() const override {
    return dynamic_ ? "dynamic" : "aot";
  }

 private:
  AotExecutable(
      ArtifactManifest manifest, std::shared_ptr<WeightStore> weights,
      std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> runner,
      int64_t code_bytes);

  absl::StatusOr<RunResult> SplitOutputs(
      std::vector<at::Tensor> values,
      absl::Span<const at::Tensor> inputs) const;

  const ArtifactManifest manifest_;
  const bool dynamic_;
  const int64_t code_bytes_;  // of its shared library
  // Declared before the container, which holds pointers into it.
  const std::shared_ptr<WeightStore> weights_;
  const std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> runner_;
};

}  // namespace stoker
