// The exported program on a GPU, interpreted by nativert. Private to
// libstoker_cuda.so.
#pragma once

#include <torch/nativert/ModelRunnerHandle.h>

#include <memory>
#include <string>
#include <vector>

#include "runner/cuda/gpu.h"
#include "runner/executable.h"
#include "runner/weight_store.h"

namespace stoker {

class GpuEager : public Executable {
 public:
  // The program's graph for this GPU, whose weights are given to nativert at
  // each run (runner/weightless_program.h): `weights`, which are there already,
  // or a copy where the program writes into something that might be one. Under
  // the opening mutex.
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      Gpu& gpu, const std::string& pt2_path,
      std::shared_ptr<WeightStore> weights);
  ~GpuEager() override;

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return false; }
  std::string_view tier() const override { return "eager"; }

 private:
  using Handle = torch::nativert::ModelRunnerHandle;
  GpuEager(Gpu& gpu, std::shared_ptr<WeightStore> store,
           std::vector<at::Tensor> weights, std::unique_ptr<Handle> handle);

  Gpu& gpu_;
  const std::shared_ptr<WeightStore> store_;
  const std::vector<at::Tensor> weights_;  // of it, by flat input, or none
  std::unique_ptr<Handle> handle_;
};

}  // namespace stoker
