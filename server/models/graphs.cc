// The part of ModelVersion that captures CUDA graphs of compiled buckets: the
// largest first, so that the memory of its pool serves the smaller ones too.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "planning/parity_cases.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

// Each has memory of its own on every device thread, and takes time to load;
// PyTorch itself stops at as many.
constexpr int kMostGraphs = 64;
// Less isn't worth the memory.
constexpr double kLeastGain = 1.05;

std::string_view RefusalLabel(const absl::Status& status) {
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

void ModelVersion::CaptureGraphs() {
  if (!spec_->graphs.enabled || !homes_.front().place.loader->captures()) {
    return;
  }
  std::vector<const WarmupStep*> steps;
  for (const WarmupStep& step : plan_) {
    // A graph is of one set of shapes.
    if (!step.dynamic()) steps.push_back(&step);
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [this](const WarmupStep* a, const WarmupStep* b) {
                     return Volume(bucket(a->bucket).sizes) >
                            Volume(bucket(b->bucket).sizes);
                   });
  for (const WarmupStep* step : steps) {
    const auto index = static_cast<size_t>(step->bucket);
    const BucketSlot& slot = slots_[index];
    if (stopping()) return;
    if (graph_tried_[index] || slot.Read().state != BucketState::kCompiled) {
      continue;
    }
    graph_tried_[index] = true;
    const int64_t left = spec_->graphs.max_bytes - graph_bytes_;
    int64_t bytes = 0;
    std::optional<GraphRefusal> refusal;
    if (graphs_kept_ >= kMostGraphs) {
      refusal = {"count", absl::StrCat("there are ", kMostGraphs, " already")};
    } else if (left <= 0) {
      refusal = {"budget",
                 absl::StrFormat("the graphs of larger buckets take all of "
                                 "the %d MB that model.yaml allows",
                                 spec_->graphs.max_bytes >> 20)};
    } else {
      refusal = CaptureGraph(*step, left, bytes);
    }
    if (stopping()) return;
    if (refusal.has_value()) {
      RefuseGraph(step->bucket, *refusal);
      continue;
    }
    ++graphs_kept_;
    graph_bytes_ += bytes;
    deps_.metrics
        ->Counter(metric::kGraphCaptures, With(labels_, "outcome", "kept"))
        .Add();
    spdlog::info("{} {}: captured as a graph, {}", spec_->Label(), step->name,
                 slot.Read().graph);
  }
}

std::optional<ModelVersion::GraphRefusal> ModelVersion::CaptureGraph(
    const WarmupStep& step, int64_t max_bytes, int64_t& bytes) {
  BucketSlot& slot = slots_[static_cast<size_t>(step.bucket)];
  const ArtifactKey& key = step.request.key;
  const std::string note_name = GraphNoteName(*spec_);
  // What it gained here before is known beside the artifact: a second start
  // doesn't time it again.
  Verdict gain;
  const std::optional<std::string> note =
      deps_.trust_verdicts ? deps_.cache->ReadNote(key, note_name)
                           : std::nullopt;
  const bool known = note.has_value() && ParseVerdict(*note, gain) &&
                     gain.measured_on == deps_.machine;
  if (known && !gain.promote) return GraphRefusal{"gain", gain.reason};

  const std::vector<Tensor> inputs =
      InputsOf(*spec_, bucket(step.bucket).sizes, /*seed=*/0);
  const std::vector<std::shared_ptr<Executable>> compiled = slot.all_compiled();
  std::vector<std::shared_ptr<Executable>> graphs;
  std::vector<int64_t> home_bytes(homes_.size(), 0);
  for (int thread = 0; thread < static_cast<int>(compiled.size()); ++thread) {
    int64_t& taken = home_bytes[static_cast<size_t>(thread / spec_->instances)];
    const absl::Time start = deps_.clock->Now();
    absl::StatusOr<CapturedGraph> captured =
        CaptureOn(thread, step.bucket, inputs, max_bytes - taken);
    if (!captured.ok()) {
      return GraphRefusal{RefusalLabel(captured.status()),
                          std::string(captured.status().message())};
    }
    deps_.metrics->Histogram(metric::kGraphCaptureSeconds, labels_)
        .Observe(absl::ToDoubleSeconds(deps_.clock->Now() - start));
    taken += captured->bytes;
    graphs.push_back(std::move(captured->executable));
  }
  if (graphs.empty()) return GraphRefusal{"failed", "nothing is compiled"};

  if (!known) {
    const absl::Status measured =
        Checker().Measure(*compiled.front(), *graphs.front(),
                          bucket(step.bucket), /*candidate_bytes=*/0, gain);
    if (!measured.ok()) {
      return GraphRefusal{"failed", std::string(measured.message())};
    }
    gain.promote = gain.speedup >= kLeastGain;
    gain.reason = absl::StrFormat("%.2f x compiled, less than %.2f",
                                  gain.speedup, kLeastGain);
    if (gain.promote) gain.reason.clear();
    deps_.cache->WriteNote(key, note_name, VerdictToJson(gain)).IgnoreError();
    if (!gain.promote) return GraphRefusal{"gain", gain.reason};
  }
  bytes = *std::max_element(home_bytes.begin(), home_bytes.end());
  if (!slot.AddGraphs(compiled, std::move(graphs), gain.speedup, bytes)) {
    return GraphRefusal{"failed", "the compiled form was lost meanwhile"};
  }
  if (gain.fastest_seconds > 0) {
    batcher_.ResetCost(step.bucket, absl::Seconds(gain.fastest_seconds));
  }
  return std::nullopt;
}

absl::StatusOr<CapturedGraph> ModelVersion::CaptureOn(
    int thread, int bucket, absl::Span<const Tensor> inputs,
    int64_t max_bytes) {
  absl::StatusOr<CapturedGraph> captured =
      absl::CancelledError("stopped before it began");
  RETURN_IF_ERROR(batcher_.RunOnDeviceThread(thread, [&] {
    const auto index = static_cast<size_t>(thread);
    std::shared_ptr<Executable> compiled =
        slots_[static_cast<size_t>(bucket)].compiled(thread);
    if (compiled == nullptr) return;
    captured = HomeOf(thread).place.loader->Capture(
        std::move(compiled), *contexts_[index], inputs, max_bytes);
  }));
  return captured;
}

void ModelVersion::RefuseGraph(int bucket, const GraphRefusal& refusal) {
  BucketSlot& slot = slots_[static_cast<size_t>(bucket)];
  deps_.metrics
      ->Counter(metric::kGraphCaptures, With(labels_, "outcome", refusal.label))
      .Add();
  const std::string text =
      absl::StrCat(Absl(refusal.label), ": ", refusal.reason);
  if (refusal.label == "failed") {
    spdlog::warn("{} {}: no graph ({})", spec_->Label(), slot.name(), text);
  } else {
    spdlog::info("{} {}: no graph ({})", spec_->Label(), slot.name(), text);
  }
  slot.DropGraphs(text);
}

}  // namespace stoker
