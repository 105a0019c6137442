// A program compiled by AOTInductor for one bucket on a GPU. Private to
// libstoker_cuda.so.
#pragma once

#include <torch/csrc/inductor/aoti_runner/model_container_runner_cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "runner/aot_artifact.h"
#include "runner/artifact_manifest.h"
#include "runner/cuda/gpu.h"
#include "runner/cuda/gpu_context.h"
#include "runner/executable.h"
#include "runner/weight_store.h"

namespace stoker {

class GpuAot : public Executable {
 public:
  // As AotExecutable::Open; `weights` are on this GPU. Under the opening mutex.
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      Gpu& gpu, const std::string& entry_folder,
      std::shared_ptr<WeightStore> weights);
  ~GpuAot() override;

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return false; }
  bool Takes(absl::Span<const Tensor> inputs) const override {
    return TakesInputs(manifest_, inputs);
  }
  std::string_view tier() const override {
    return IsDynamic(manifest_) ? "dynamic" : "aot";
  }

  // For GpuGraph.
  const ArtifactManifest& manifest() const { return manifest_; }
  // Enqueues the compiled code on the current stream, which is `stream`.
  std::vector<at::Tensor> Enqueue(const std::vector<at::Tensor>& inputs,
                                  const c10::cuda::CUDAStream& stream);
  // What came back on the host as a result: the validity output is read.
  absl::StatusOr<RunResult> Result(std::vector<at::Tensor> answers) const;
  // "compiled program, bucket ...", for errors.
  std::string Name() const;

 private:
  using Runner = torch::inductor::AOTIModelContainerRunnerCuda;
  GpuAot(Gpu& gpu, ArtifactManifest manifest,
         std::shared_ptr<WeightStore> weights, std::unique_ptr<Runner> runner);

  Gpu& gpu_;
  const ArtifactManifest manifest_;
  // Declared before the container, which holds pointers into it.
  const std::shared_ptr<WeightStore> weights_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace stoker
