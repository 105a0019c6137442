#include "runner/cuda/gpu_graph.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/aot_artifact.h"

namespace stoker {
namespace {

// Loading modules, filling caches, making handles: none of it may happen for
// the first time during a capture.
constexpr int kRunsBefore = 2;

bool SameBits(const std::vector<at::Tensor>& a,
              const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes() ||
        a[i].scalar_type() != b[i].scalar_type() ||
        (a[i].nbytes() > 0 &&
         std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(),
                     a[i].nbytes()) != 0)) {
      return false;
    }
  }
  return true;
}

// 0 for one that isn't used yet.
int64_t PoolBytes(const GraphPool& pool) {
  int64_t bytes = 0;
  const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot(
      *pool, /*include_traces=*/false);
  for (const auto& segment : snapshot.segments) {
    bytes += static_cast<int64_t>(segment.total_size);
  }
  return bytes;
}

}  // namespace

GpuGraph::GpuGraph(std::shared_ptr<GpuAot> compiled, GpuContext& context)
    : compiled_(std::move(compiled)), context_(context), gpu_(context.gpu()) {}

GpuGraph::~GpuGraph() {
  // torch takes it out of the random generator's set of graphs, which has no
  // lock of its own.
  const absl::MutexLock lock(&gpu_.capture_lock());
  const c10::cuda::CUDAGuard guard(gpu_.device());
  outputs_.clear();
  graph_.reset();
  inputs_.clear();
}

absl::StatusOr<CapturedGraph> GpuGraph::Capture(
    std::shared_ptr<GpuAot> compiled, GpuContext& context,
    absl::Span<const std::vector<Tensor>> samples, int64_t max_bytes) {
  const std::vector<Tensor>& inputs = samples.front();
  for (const std::vector<Tensor>& sample : samples) {
    RETURN_IF_ERROR(CheckArtifactInputs(compiled->manifest(), sample));
  }
  const std::string& why = compiled->manifest().not_capturable;
  if (!why.empty()) return absl::FailedPreconditionError(why);
  Gpu& gpu = context.gpu();
  RETURN_IF_ERROR(gpu.health().Check());
  RETURN_IF_ERROR(context.ReadyToCapture());

  std::shared_ptr<GpuGraph> graph(new GpuGraph(std::move(compiled), context));
  for (const Tensor& input : inputs) graph->shapes_.push_back(input.shape);
  std::vector<at::Tensor> runs[kRunsBefore];
  ASSIGN_OR_RETURN(const int64_t peak, graph->PeakOf([&] {
    for (std::vector<at::Tensor>& run : runs) {
      ASSIGN_OR_RETURN(run, graph->RunUncaptured(inputs));
    }
    return absl::OkStatus();
  }));
  if (!SameBits(runs[0], runs[1])) {
    return absl::FailedPreconditionError(
        "two uncaptured runs on the same inputs differ, so that a replay can't "
        "be checked");
  }
  // Refused before it is taken; what it takes is measured.
  const std::string& bucket = graph->compiled_->manifest().bucket;
  ASSIGN_OR_RETURN(GpuMemory::Claim room,
                   gpu.Take(GpuUse::kGraphs, bucket, peak));
  const int64_t beside = gpu.BytesBesideTorch();
  const absl::StatusOr<int64_t> recorded = graph->Record();
  if (!recorded.ok()) {
    try {
      const absl::ReaderMutexLock lock(&gpu.capture_lock());
      context.RenewGraphStream();
    } catch (...) {
      gpu.ErrorNow("a new stream").IgnoreError();
    }
    return recorded.status();
  }
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> replayed,
                   graph->Replay(inputs));
  if (!SameBits(runs[0], replayed)) {
    return absl::FailedPreconditionError(
        "the captured graph's answer differs from that of a run");
  }
  for (const std::vector<Tensor>& other : samples.subspan(1)) {
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> expected,
                     graph->RunUncaptured(other));
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> answer,
                     graph->Replay(other));
    if (!SameBits(expected, answer)) {
      return absl::FailedPreconditionError(
          "the captured graph's answer to other inputs differs from that of a "
          "run: it has kept something of those that it was captured with");
    }
  }
  // The first launch is when the driver takes what the graph needs of its own.
  CapturedGraph captured;
  captured.bytes =
      *recorded + std::max<int64_t>(gpu.BytesBesideTorch() - beside, 0);
  for (const at::Tensor& input : graph->inputs_) {
    captured.bytes += static_cast<int64_t>(input.nbytes());
  }
  if (captured.bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the captured graph takes ", captured.bytes,
                     " bytes of device memory, ", max_bytes,
                     " are left of "
                     "what model.yaml allows"));
  }
  room.reset();
  graph->claim_ = gpu.memory().Note(GpuUse::kGraphs, captured.bytes);
  captured.executable = std::move(graph);
  return captured;
}

absl::StatusOr<int64_t> GpuGraph::PeakOf(
    absl::FunctionRef<absl::Status()> runs) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  constexpr size_t kAll = 0;  // of the allocator's statistics
  const c10::DeviceIndex device = gpu_.device().index();
  try {
    // What other threads take or let go meanwhile counts as well.
    allocator::resetPeakStats(device);
    const int64_t before =
        allocator::getDeviceStats(device).allocated_bytes[kAll].current;
    RETURN_IF_ERROR(runs());
    return std::max<int64_t>(
        allocator::getDeviceStats(device).allocated_bytes[kAll].peak - before,
        0);
  } catch (...) {
    return gpu_.ErrorNow("asking torch's allocator");
  }
}

absl::StatusOr<GpuGraph::Tensors> GpuGraph::RunUncaptured(
    absl::Span<const Tensor> inputs) {
  const auto run = [&]() -> absl::StatusOr<Tensors> {
    if (inputs_.empty()) {
      inputs_ = context_.Upload(inputs);
    } else {
      context_.UploadInto(inputs, inputs_);
    }
    return compiled_->Enqueue(inputs_, context_.graph_stream());
  };
  return context_.Run(context_.graph_stream(), compiled_->Name(), false, run);
}

absl::StatusOr<int64_t> GpuGraph::Record() {
  const absl::MutexLock lock(&gpu_.capture_lock());
  const c10::InferenceMode mode;
  try {
    const c10::cuda::CUDAStreamGuard guard(context_.graph_stream());
    const GraphPool pool = context_.graph_pool();
    const int64_t before = PoolBytes(pool);
    graph_ = RecordGraph(gpu_.device(), pool, [&] {
      outputs_ = compiled_->Enqueue(inputs_, context_.graph_stream());
      // Part of the graph: answers are copied out as they are.
      for (at::Tensor& output : outputs_) {
        output = output.resolve_conj().resolve_neg().contiguous();
      }
    });
    return PoolBytes(pool) - before;
  } catch (...) {
    outputs_.clear();
    graph_.reset();
    return gpu_.ErrorNow("capturing a graph");
  }
}

absl::StatusOr<GpuGraph::Tensors> GpuGraph::Replay(
    absl::Span<const Tensor> inputs) {
  const auto run = [&]() -> absl::StatusOr<Tensors> {
    context_.UploadInto(inputs, inputs_);
    graph_->Replay();
    gpu_.CountReplay();
    return outputs_;
  };
  return context_.Run(context_.graph_stream(), compiled_->Name(), false, run);
}

// Every size: what was computed on the host at the capture is frozen.
bool GpuGraph::Fits(absl::Span<const Tensor> inputs) const {
  if (inputs.size() != shapes_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape != shapes_[i]) return false;
  }
  return true;
}

absl::StatusOr<RunResult> GpuGraph::Run(ExecutionContext& context,
                                        absl::Span<const Tensor> inputs) {
  if (&context != &context_ || !Fits(inputs)) {
    return compiled_->Run(context, inputs);
  }
  RETURN_IF_ERROR(CheckArtifactInputs(compiled_->manifest(), inputs));
  ASSIGN_OR_RETURN(Tensors answers, Replay(inputs));
  return compiled_->Result(std::move(answers));
}

}  // namespace stoker
