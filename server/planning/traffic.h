// What a model is asked for: the shapes of its requests, and how they share
// runs. Kept by model name, so that a new version begins with what the old one
// learnt, and on disk beside the kernel cache, so that a restart does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernel_cache/fact_store.h"
#include "planning/request_samples.h"
#include "planning/shape_sketch.h"
#include "repository/model_spec.h"
#include "tensor/shape_bucket.h"

namespace stoker {

// How the fact store keeps it: the shapes of a model's requests, and requests
// with their values, which are nobody else's business.
inline constexpr RecordKind kTrafficRecord = {.name = "traffic",
                                              .suffix = ".json",
                                              .max_bytes = 1 << 20,
                                              .from_layers = true};
inline constexpr RecordKind kRequestsRecord = {.name = "requests",
                                               .suffix = ".safetensors",
                                               .max_bytes = 80 << 20,
                                               .from_layers = false};

// A copy of what was recorded. Immutable value.
struct TrafficRecord {
  std::vector<std::string> dimensions;  // of the model, by name
  std::vector<ShapeCount> requests;     // one size per dimension
  // Runs by {rows, requests}, where 2 requests stand for any number of them.
  // Empty for a model without a batch dimension.
  std::vector<ShapeCount> runs;
  // That `buckets: auto` chose last; nullopt when it never did.
  std::optional<std::vector<ShapeBucket>> chosen;

  friend bool operator==(const TrafficRecord&, const TrafficRecord&) = default;
};

// JSON text. ParseTraffic is INVALID_ARGUMENT for anything that TrafficToJson
// can't have written: another structure, sizes or counts below 0 or absurdly
// large, more of them than are ever kept.
std::string TrafficToJson(const TrafficRecord& record);
absl::StatusOr<TrafficRecord> ParseTraffic(const std::string& json);

// Of one model. Thread-safe. About 200 KB at most.
class ModelTraffic {
 public:
  static constexpr size_t kMaxShapes = 512;
  static constexpr size_t kMaxRunKinds = 256;

  // `start` is what was recorded before.
  explicit ModelTraffic(const TrafficRecord& start);

  // Once per request, when it is accepted. Tens of nanoseconds.
  void RecordRequest(absl::Span<const int64_t> sizes) {
    requests_.Record(sizes);
  }
  // Once per run of a model that has a batch dimension.
  void RecordRun(int64_t rows, int requests) {
    runs_.Record({rows, requests > 1 ? 2 : 1});
  }
  void SetChosen(std::vector<ShapeBucket> buckets) ABSL_LOCKS_EXCLUDED(mu_);

  TrafficRecord Read() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const std::vector<std::string> dimensions_;
  ShapeSketch requests_;
  ShapeSketch runs_;
  mutable absl::Mutex mu_;
  std::optional<std::vector<ShapeBucket>> chosen_ ABSL_GUARDED_BY(mu_);
};

// What was kept of the model's traffic. NOT_FOUND when there is nothing,
// INVALID_ARGUMENT when it is damaged, FAILED_PRECONDITION when the model's
// dimensions had other names then.
absl::StatusOr<TrafficRecord> ReadTraffic(const FactStore& facts,
                                          const ModelSpec& spec);

// The same for a daemon: what was kept of the model's traffic, when its
// dimensions have the names that they had then; else a record of nothing. A
// damaged file is set aside with a warning.
TrafficRecord LoadTraffic(FactStore& facts, const ModelSpec& spec);

// The traffic of all models. Not thread-safe: of the lifecycle thread.
class TrafficKeeper {
 public:
  // Null: nothing is kept on disk. Outlives this object.
  explicit TrafficKeeper(FactStore* facts) : facts_(facts) {}

  // One object per model name, and a new one when the names of its dimensions
  // change.
  std::shared_ptr<ModelTraffic> Of(const ModelSpec& spec);
  // Likewise; a new one when the number that model.yaml allows changes.
  std::shared_ptr<RequestSamples> SamplesOf(const ModelSpec& spec);

  // Writes what has changed since it was last written. What can't be written
  // costs one warning per model.
  void Save();

 private:
  struct Kept {
    std::shared_ptr<ModelTraffic> traffic;
    TrafficRecord saved;
    std::shared_ptr<RequestSamples> samples;
    int most_samples = 0;
    uint64_t saved_changes = 0;
    bool warned = false;
  };
  absl::Status Save(const std::string& model, Kept& kept);
  FactStore* const facts_;
  std::map<std::string, Kept> kept_;  // by model
};

}  // namespace stoker
