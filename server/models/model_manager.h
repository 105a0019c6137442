// The models that are served: finds a published version for a request, and says
// how all of them are doing. Which versions there are is lifecycle.h's to
// decide, on a thread that this object runs.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "compile_broker/compiler.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"
#include "models/device_places.h"
#include "models/isolated_eager.h"
#include "models/version_report.h"
#include "models/version_stats.h"
#include "models/wanted_version.h"
#include "repository/model_repository.h"
#include "runner/executable_loader.h"
#include "runner/toolchain.h"

namespace stoker {

class FirstRun;
class RecentRefusals;
class ReferenceRun;
class Telemetry;
class Tokenizers;
class ModelVersion;
class PipelineVersion;
class RestingVersion;
struct PublishedVersion;

// A published version, held for one request. One that rests is loaded again
// when something is submitted, which waits for that. A version that something
// else takes the place of stops when nobody holds it any more, or after five
// minutes: so a request that has its handle isn't refused because versions
// change.
class ModelHandle {
 public:
  explicit ModelHandle(PublishedVersion version);
  const ModelSpec& spec() const;
  VersionStats& stats() const;

  // Checks dimension bounds, finds the bucket, hands the task to the batcher.
  // `inputs` must have the spec's dtypes and ranks already (rpc/tensor_codec
  // checks them). Takes the task on OK. INVALID_ARGUMENT: a size outside the
  // program's bounds; OUT_OF_RANGE: fits no bucket and the model rejects that;
  // UNAVAILABLE: queue full, or the server drains.
  absl::Status Submit(std::unique_ptr<InferTask>& task) const;
  // Ends cancelled tasks that are still queued.
  void SweepCancelled() const;
  // Whether both are the same loaded version.
  friend bool operator==(const ModelHandle&, const ModelHandle&) = default;

 private:
  std::shared_ptr<ModelVersion> version_;
  std::shared_ptr<RestingVersion> resting_;          // in its stead
  std::shared_ptr<const PipelineVersion> pipeline_;  // of others
};

struct ModelManagerOptions {
  absl::Duration poll_interval =
      absl::ZeroDuration();  // 0: read the repository once
  // Only models that were chosen are served: at the start these, "*" for all,
  // then what Load and Unload choose. Not with a poll interval.
  bool explicit_control = false;
  std::vector<std::string> load_models;
  // How often `buckets: auto` looks at the traffic of what serves; 0: only when
  // a version is loaded.
  absl::Duration rebucket_interval = absl::ZeroDuration();
  // Without a request for so long, a version on a GPU gives way to one whose
  // load finds no memory there; infinite: never.
  absl::Duration idle_after = absl::InfiniteDuration();
  // What loaded versions may take of the host's memory together, in bytes:
  // beyond it, idle ones rest; 0: no limit.
  int64_t memory_budget = 0;
  int cores = 1;                  // of this host
  Toolchain toolchain;            // what compiled code is made by and for
  bool verify_promotions = true;  // parity and profit checks before promotion
  bool compiles = true;           // false: this host never does
  // A version with a bucket that is not in the cache is not loaded.
  bool require_cache = false;
  // Whether verdicts that are stored beside artifacts are taken for granted.
  bool trust_verdicts = true;
  // All outlive the manager; may be null.
  const IsolatedEager::Options* isolated = nullptr;
  FirstRun* first_run = nullptr;
  const ReferenceRun* reference = nullptr;
  // Hears why buckets stay on eager; the same.
  RecentRefusals* refusals = nullptr;
  // Told of loads and compiles; the same.
  Telemetry* telemetry = nullptr;
  // Of pipelines; the same.
  const Tokenizers* tokenizers = nullptr;
  std::string machine;  // [a-z0-9]+: what timings are good for
  // Asked when a model is first to run on a GPU; empty: there are none.
  DevicePlaces::FindGpus gpus;
  ResourceLimits resources;  // that models name
};

class ModelManager {
 public:
  // All that is passed by pointer or reference outlives the manager. Null cache
  // and compiler: nothing is compiled.
  ModelManager(const ModelManagerOptions& options, SnapshotSource& repository,
               KernelCache* cache, Compiler* compiler, ExecutableLoader& loader,
               Clock& clock, MetricRegistry& metrics);
  // Drain(now), unless drained already.
  ~ModelManager();

  // Starts the lifecycle thread.
  void Start();

  // The published version; of any, the one that gets most of the requests.
  // NOT_FOUND / UNAVAILABLE / INVALID_ARGUMENT with Triton's texts.
  absl::StatusOr<ModelHandle> Acquire(std::string_view model,
                                      const WantedVersion& version) const;
  // As Acquire, for a run: of any, the one whose turn it is by the aliases'
  // percentages.
  absl::StatusOr<ModelHandle> AcquireForRun(std::string_view model,
                                            const WantedVersion& version) const;
  // Whether Acquire would succeed; never an error.
  bool Ready(std::string_view model, const WantedVersion& version) const;
  // With explicit control also what could be loaded: as version 0, unloaded.
  std::vector<VersionStatus> Index() const;
  // The index, with the buckets of what is loaded.
  std::vector<VersionReport> Report() const;
  // Every wanted version is serving or, unless the cache is required, has
  // failed, at least one repository poll is done, and the server is not
  // draining.
  bool ServerReady() const;
  // Whether Load and Unload may be called.
  bool explicit_control() const;
  // Reads the model from the repository and loads what it finds, behind what
  // serves. `done` is called once, on the lifecycle thread or before the call
  // returns, and must not block: OK when every wanted version serves; INTERNAL,
  // in Triton's words, when one failed; ABORTED when the model was unloaded
  // meanwhile; UNAVAILABLE when the server drains.
  using Done = std::function<void(const absl::Status&)>;
  void Load(std::string model, Done done);
  // The same of what the request says instead of the repository, where it isn't
  // empty. INVALID_ARGUMENT or RESOURCE_EXHAUSTED: that can't be had
  // (repository/snapshot_source.h); ABORTED also when another load of the model
  // is under way. Writes and reads files: of a thread that may wait for a disk.
  void Load(std::string model, const ModelOverride& override, Done done);
  // As Load; OK when no new request finds a version, which may be now.
  void Unload(std::string model, Done done);
  // And what was loaded with it, as its steps, unless others are made of it.
  void UnloadWithSteps(std::string model, Done done);
  // Has the index name what is in the repository now; as Load.
  void RefreshIndex(Done done);
  // Models that had at least one version wanted.
  std::vector<std::string> ModelNames() const;

  // Called after each change of any readiness, from the lifecycle thread. Set
  // before Start.
  void OnReadinessChange(std::function<void()> listener);

  // Not ready from now on; finishes queued and running requests until
  // `deadline`, stops. Only the first call's deadline counts.
  void Drain(MonotonicTime deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
