// The exported program on a GPU, interpreted by nativert. Private to
// libstoker_cuda.so.
#pragma once

#include <torch/nativert/ModelRunnerHandle.h>

#include <memory>
#include <string>

#include "runner/cuda/gpu.h"
#include "runner/executable.h"

namespace stoker {

class GpuEager : public Executable {
 public:
  // Loads the program's copy for this GPU (runner/device_program.h), with
  // weights of its own: nativert has no hook for others'. Under the opening
  // mutex.
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      Gpu& gpu, const std::string& pt2_path);
  ~GpuEager() override;

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return false; }
  std::string_view tier() const override { return "eager"; }

 private:
  using Handle = torch::nativert::ModelRunnerHandle;
  GpuEager(Gpu& gpu, GpuMemory::Claim claim, std::unique_ptr<Handle> handle);

  Gpu& gpu_;
  const GpuMemory::Claim claim_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace stoker
