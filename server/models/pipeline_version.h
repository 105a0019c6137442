// A version that is made of others, as it serves: takes requests like any, and
// runs each step in the queue of the model that it names. It holds none of
// their memory: a request finds the versions that serve then, and holds them
// until it is answered. What it takes and gives was made for the versions that
// served when it was made; others are held against a request as it comes.
//
// Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "metrics/metrics.h"
#include "models/version_stats.h"
#include "pipelines/pipeline_graph.h"
#include "pipelines/step_model.h"
#include "repository/model_spec.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class PublishedVersions;

class PipelineVersion {
 public:
  // `spec`: with its interface (pipelines/pipeline_interface.h). `tokenizers`:
  // by step; null: it has a model. `stats`: of a version of the same number
  // that this takes the place of, or null; `series`: of its figures. What is
  // passed by reference outlives it.
  PipelineVersion(std::shared_ptr<const ModelSpec> spec,
                  std::vector<std::shared_ptr<StepModel>> tokenizers,
                  std::shared_ptr<VersionStats> stats,
                  std::shared_ptr<MetricScope> series,
                  PublishedVersions& published, Clock& clock);

  const ModelSpec& spec() const { return *spec_; }
  const std::shared_ptr<const ModelSpec>& shared_spec() const { return spec_; }
  VersionStats& stats() const { return *stats_; }
  const std::shared_ptr<VersionStats>& shared_stats() const { return stats_; }

  // As ModelHandle's. UNAVAILABLE as well: a step's model doesn't serve.
  absl::Status Submit(std::unique_ptr<InferTask>& task) const;
  void SweepCancelled() const;

 private:
  class Figures;

  // What each step runs in now.
  absl::StatusOr<std::vector<std::shared_ptr<StepModel>>> FindModels(
      bool for_run) const;

  const std::shared_ptr<const ModelSpec> spec_;
  const std::shared_ptr<const PipelineGraph> graph_;
  const std::vector<std::shared_ptr<StepModel>> tokenizers_;
  const BucketTable table_;
  const std::shared_ptr<VersionStats> stats_;
  const std::shared_ptr<Figures> figures_;
  PublishedVersions& published_;
  Clock& clock_;
};

}  // namespace stoker
