#include "models/pipeline_version.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "metrics/outcome.h"
#include "models/model_manager.h"
#include "models/model_version.h"
#include "models/published_versions.h"
#include "models/version_labels.h"
#include "pipelines/pipeline_run.h"
#include "repository/pipeline_spec.h"

namespace stoker {
namespace {

// A version, held for one request.
class HeldModel : public StepModel {
 public:
  HeldModel(ModelHandle handle, Clock& clock)
      : handle_(std::move(handle)), clock_(clock) {}

  const ModelSpec& spec() const override { return handle_.spec(); }
  absl::Status Submit(std::unique_ptr<InferTask>& task) override {
    return handle_.Submit(task);
  }
  void SweepCancelled() override { handle_.SweepCancelled(); }
  void RecordSuccess(const InferResult& result, int64_t rows,
                     absl::Duration total) override {
    handle_.stats().RecordSuccess(result, rows, total, clock_.WallNow());
  }
  void RecordFailure(const absl::Status& status, bool queued,
                     absl::Duration total) override {
    handle_.stats().RecordFailure(status, queued, total);
  }

 private:
  const ModelHandle handle_;
  Clock& clock_;
};

}  // namespace

// Of its steps.
class PipelineVersion::Figures {
 public:
  Figures(const ModelSpec& spec, const PipelineGraph& graph,
          std::shared_ptr<MetricScope> series)
      : series_(std::move(series)) {
    for (const PipelineGraph::Step& step : graph.steps) {
      const Labels labels = With(VersionLabels(spec), "step", step.name);
      steps_.push_back(
          {labels, series_->Histogram(metric::kPipelineStepSeconds, labels),
           series_->Counter(metric::kPipelineSteps,
                            With(labels, "outcome", "ok"))});
    }
  }

  void Record(size_t step, const absl::Status& status, absl::Duration total) {
    Step& its = steps_[step];
    its.seconds.Observe(absl::ToDoubleSeconds(total));
    if (status.ok()) return its.ok.Add();
    series_
        ->Counter(metric::kPipelineSteps,
                  With(its.labels, "outcome", OutcomeName(status.code())))
        .Add();
  }

 private:
  struct Step {
    Labels labels;
    Histogram seconds;
    Counter ok;
  };
  const std::shared_ptr<MetricScope> series_;
  std::vector<Step> steps_;
};

PipelineVersion::PipelineVersion(
    std::shared_ptr<const ModelSpec> spec,
    std::vector<std::shared_ptr<StepModel>> tokenizers,
    std::shared_ptr<VersionStats> stats, std::shared_ptr<MetricScope> series,
    PublishedVersions& published, Clock& clock)
    : spec_(std::move(spec)),
      graph_(std::make_shared<const PipelineGraph>(*spec_->pipeline)),
      tokenizers_(std::move(tokenizers)),
      table_({}, std::vector<bool>(spec_->dimensions.size())),
      stats_(stats != nullptr
                 ? std::move(stats)
                 : std::make_shared<VersionStats>(
                       *series, VersionLabels(*spec_),
                       std::vector<std::string>(),
                       std::vector<std::string_view>{kPipelineTier})),
      figures_(std::make_shared<Figures>(*spec_, *graph_, std::move(series))),
      published_(published),
      clock_(clock) {}

absl::StatusOr<std::vector<std::shared_ptr<StepModel>>>
PipelineVersion::FindModels(bool for_run) const {
  std::vector<std::shared_ptr<StepModel>> models = tokenizers_;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i] != nullptr) continue;
    const PipelineStep& step = spec_->pipeline->steps[i];
    const WantedVersion wanted{.number = step.version, .alias = step.alias};
    absl::StatusOr<PublishedVersion> found =
        for_run ? published_.AcquireForRun(step.model, wanted)
                : published_.Acquire(step.model, wanted);
    if (!found.ok()) {
      return absl::UnavailableError(
          absl::StrCat("step '", step.name, "': ", found.status().message()));
    }
    models[i] =
        std::make_shared<HeldModel>(ModelHandle(*std::move(found)), clock_);
  }
  return models;
}

absl::Status PipelineVersion::Submit(std::unique_ptr<InferTask>& task) const {
  RETURN_IF_ERROR(CheckSizes(*spec_, table_, task->sizes));
  ASSIGN_OR_RETURN(std::vector<std::shared_ptr<StepModel>> models,
                   FindModels(/*for_run=*/true));
  // As one execution, whatever its steps shared with others.
  task->on_done = [stats = stats_, rows = task->rows,
                   done = std::move(task->on_done)](
                      absl::StatusOr<InferResult> result) {
    if (result.ok()) {
      stats->RecordBatch(rows, result->assemble, result->run, result->split);
    }
    done(std::move(result));
  };
  PipelineRun::Start(
      spec_, graph_, std::move(models), std::move(task), clock_,
      [figures = figures_](size_t step, const absl::Status& status,
                           absl::Duration total) {
        figures->Record(step, status, total);
      });
  return absl::OkStatus();
}

void PipelineVersion::SweepCancelled() const {
  const auto models = FindModels(/*for_run=*/false);
  if (!models.ok()) return;
  for (const std::shared_ptr<StepModel>& model : *models) {
    model->SweepCancelled();
  }
}

}  // namespace stoker
