// The runs of one compiled form on inputs of one shape, captured as a CUDA
// graph on one device thread and replayed there. Unlike other executables it
// has state of that thread: the fixed memory that its kernels read and write.
// Private to libstoker_cuda.so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runner/cuda/gpu_aot.h"
#include "runner/cuda/gpu_context.h"
#include "runner/cuda/graph_recording.h"
#include "runner/executable.h"
#include "runner/executable_loader.h"

namespace stoker {

class GpuGraph : public Executable {
 public:
  // ExecutableLoader::Capture.
  static absl::StatusOr<CapturedGraph> Capture(
      std::shared_ptr<GpuAot> compiled, GpuContext& context,
      absl::Span<const std::vector<Tensor>> samples, int64_t max_bytes);
  ~GpuGraph() override;

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return false; }
  std::string_view tier() const override { return "graph"; }

 private:
  using Tensors = std::vector<at::Tensor>;
  GpuGraph(std::shared_ptr<GpuAot> compiled, GpuContext& context);

  // The steps of Capture.
  absl::StatusOr<Tensors> RunUncaptured(absl::Span<const Tensor> inputs);
  // Device memory that the runs which `runs` makes take at their peak.
  absl::StatusOr<int64_t> PeakOf(absl::FunctionRef<absl::Status()> runs);
  // What its pool grew by.
  absl::StatusOr<int64_t> Record();
  // Its answers, on the host.
  absl::StatusOr<Tensors> Replay(absl::Span<const Tensor> inputs);
  bool Fits(absl::Span<const Tensor> inputs) const;

  const std::shared_ptr<GpuAot> compiled_;  // whose constants it has built in
  GpuContext& context_;
  Gpu& gpu_;
  Tensors inputs_;
  Tensors outputs_;  // in the graphs' pool: held, so that no other graph is
                     // given their memory
  std::vector<Shape> shapes_;
  std::unique_ptr<RecordedGraph> graph_;
  GpuMemory::Claim claim_;
};

}  // namespace stoker
