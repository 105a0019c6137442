#include "models/graph_capture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

// Each has memory of its own on every device thread, and takes time to load;
// PyTorch itself stops at as many.
constexpr int kMostGraphs = 64;
// Less isn't worth the memory.
constexpr double kLeastGain = 1.05;

std::string_view LabelOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return "unfit";
    case absl::StatusCode::kResourceExhausted:
      return "memory";
    default:
      return "failed";
  }
}

}  // namespace

void GraphCapture::CaptureAll() {
  if (!version_.spec.graphs.enabled ||
      !version_.tiers.device(0).place.loader->captures()) {
    return;
  }
  std::vector<const WarmupStep*> steps;
  for (const WarmupStep& step : version_.plan) {
    // A graph is of one set of shapes.
    if (!step.dynamic()) steps.push_back(&step);
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const WarmupStep* a, const WarmupStep* b) {
                     return Volume(a->sizes.sizes) > Volume(b->sizes.sizes);
                   });
  for (const WarmupStep* step : steps) {
    const BucketSlot& slot = version_.tiers.slot(step->bucket);
    if (version_.stopping()) return;
    const BucketSlot::Snapshot now = slot.Read();
    const bool tried = !now.graph.empty();
    if (tried || now.state != BucketState::kCompiled) continue;
    const std::optional<NoGraph> none = Capture(*step);
    if (version_.stopping()) return;
    if (none.has_value()) {
      version_.tiers.DropGraph(step->bucket, none->label, none->why);
      continue;
    }
    version_.deps.metrics
        ->Counter(metric::kGraphCaptures,
                  With(VersionLabels(version_.spec), "outcome", "kept"))
        .Add();
    log::Info("{} {}: captured as a graph, {}", version_.spec.Label(),
              step->name, slot.Read().graph);
  }
}

std::optional<GraphCapture::NoGraph> GraphCapture::Capture(
    const WarmupStep& step) {
  const int64_t max_bytes = version_.spec.graphs.max_bytes;
  if (kept_ >= kMostGraphs) {
    return NoGraph{"count",
                   absl::StrCat("there are ", kMostGraphs, " already")};
  }
  if (kept_bytes_ >= max_bytes) {
    return NoGraph{"budget",
                   absl::StrFormat("the graphs of larger buckets take all of "
                                   "the %d MB that model.yaml allows",
                                   max_bytes >> 20)};
  }
  BucketSlot& slot = version_.tiers.slot(step.bucket);
  const std::optional<ArtifactId> artifact = slot.Read().artifact;
  const Executables compiled = slot.all_compiled();
  if (!artifact.has_value() || compiled.empty()) {
    return NoGraph{"failed", "nothing is compiled"};
  }
  // What it gained here before is known beside the artifact: a second start
  // doesn't time it again.
  std::optional<Profit> gain = evidence_.ReadGraphGain(*artifact);
  if (gain.has_value() && !gain->worth) return NoGraph{"gain", gain->reason};

  absl::StatusOr<Captured> captured =
      CaptureOnEachThread(step, compiled.size(), max_bytes - kept_bytes_);
  if (!captured.ok()) {
    return NoGraph{LabelOf(captured.status()),
                   std::string(captured.status().message())};
  }
  if (!gain.has_value()) {
    const absl::StatusOr<Profit> measured =
        Measure(step, *compiled.front(), *captured->graphs.front());
    if (!measured.ok()) {
      return NoGraph{"failed", std::string(measured.status().message())};
    }
    gain = *measured;
    evidence_.WriteGraphGain(*artifact, *gain);
    if (!gain->worth) return NoGraph{"gain", gain->reason};
  }
  if (!slot.AddGraphs(compiled, std::move(captured->graphs), gain->speedup,
                      captured->bytes)) {
    return NoGraph{"failed", "the compiled form was lost meanwhile"};
  }
  ++kept_;
  kept_bytes_ += captured->bytes;
  if (gain->fastest_seconds > 0) {
    version_.batcher.ResetCost(step.bucket,
                               absl::Seconds(gain->fastest_seconds));
  }
  return std::nullopt;
}

std::vector<std::vector<Tensor>> GraphCapture::Samples(
    const WarmupStep& step) const {
  const MadeUpInputs& made_up = version_.made_up;
  const DimensionSizes& sizes = step.sizes.sizes;
  std::vector<std::vector<Tensor>> samples = {
      made_up.Of(sizes, /*seed=*/0), made_up.Of(sizes, /*seed=*/1),
      made_up.Extremes(sizes, /*seed=*/2),
      made_up.OtherIntegers(sizes, /*seed=*/0),
      made_up.WideIntegers(sizes, /*seed=*/3)};
  std::erase_if(samples, [](const auto& sample) { return sample.empty(); });
  uint64_t seed = 4;
  for (const CaseSizes& one : ParityCases(version_.spec, step.sizes)) {
    if (!one.padded) continue;
    samples.push_back(PaddedInputs(
        version_.layout, made_up.Of(one.sizes, seed++), one.sizes, step.sizes));
  }
  return samples;
}

absl::StatusOr<GraphCapture::Captured> GraphCapture::CaptureOnEachThread(
    const WarmupStep& step, size_t threads, int64_t max_bytes) const {
  Clock& clock = *version_.deps.clock;
  const std::vector<std::vector<Tensor>> samples = Samples(step);
  Captured captured;
  std::vector<int64_t> device_bytes(version_.deps.placement.places.size(), 0);
  for (size_t thread = 0; thread < threads; ++thread) {
    int64_t& taken =
        device_bytes[thread / static_cast<size_t>(version_.spec.instances)];
    const MonotonicTime start = clock.Now();
    ASSIGN_OR_RETURN(CapturedGraph graph,
                     CaptureOn(static_cast<int>(thread), step.bucket, samples,
                               max_bytes - taken));
    version_.deps.metrics
        ->Histogram(metric::kGraphCaptureSeconds, VersionLabels(version_.spec))
        .Observe(absl::ToDoubleSeconds(clock.Now() - start));
    taken += graph.bytes;
    captured.graphs.push_back(std::move(graph.executable));
  }
  captured.bytes = *std::max_element(device_bytes.begin(), device_bytes.end());
  return captured;
}

absl::StatusOr<CapturedGraph> GraphCapture::CaptureOn(
    int thread, int bucket, absl::Span<const std::vector<Tensor>> samples,
    int64_t max_bytes) const {
  CapturedGraph captured;
  RETURN_IF_ERROR(version_.device_threads.Run(
      thread, [&](ExecutionContext& context) -> absl::Status {
        std::shared_ptr<Executable> compiled =
            version_.tiers.slot(bucket).compiled(thread);
        if (compiled == nullptr) {
          return absl::CancelledError("the compiled form was lost meanwhile");
        }
        ASSIGN_OR_RETURN(captured,
                         version_.tiers.device(thread).place.loader->Capture(
                             std::move(compiled), context, samples, max_bytes));
        return absl::OkStatus();
      }));
  return captured;
}

absl::StatusOr<Profit> GraphCapture::Measure(const WarmupStep& step,
                                             Executable& compiled,
                                             Executable& graph) const {
  ASSIGN_OR_RETURN(Profit gain, check_.Measure(compiled, graph, step.sizes,
                                               /*candidate_bytes=*/0,
                                               CandidateCheck::Look::kSecond));
  gain.worth = gain.speedup >= kLeastGain;
  gain.reason = gain.worth ? ""
                           : absl::StrFormat("%.2f x compiled, less than %.2f",
                                             gain.speedup, kLeastGain);
  return gain;
}

}  // namespace stoker
