#include "models/model_version.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "models/work_told.h"
#include "planning/parity_cases.h"
#include "planning/placement.h"

namespace stoker {
namespace {

DynamicBatching Batching(const DynamicBatchingSpec& spec) {
  DynamicBatching batching;
  batching.max_queue_delay = spec.max_queue_delay;
  batching.preferred_batch_sizes = spec.preferred_batch_sizes;
  batching.preserve_ordering = spec.preserve_ordering;
  batching.default_priority_level = spec.default_priority_level;
  batching.policies.clear();
  for (const QueuePolicySpec& policy : spec.policies) {
    batching.policies.push_back(
        {policy.delay_on_timeout ? TimeoutAction::kDelay
                                 : TimeoutAction::kReject,
         policy.default_timeout, policy.allow_timeout_override,
         policy.max_queue_size});
  }
  return batching;
}

BatcherOptions QueueOptions(const ModelSpec& spec, int threads,
                            const Labels& labels) {
  BatcherOptions options;
  options.name = spec.Label();
  options.threads = spec.instances * static_cast<int>(spec.devices.size());
  // On a GPU, one of the two runs that it takes at a time.
  options.share_per_run = spec.on_gpu() ? 1 : threads;
  options.weight = spec.weight;
  options.batching = Batching(spec.dynamic_batching);
  options.labels = labels;
  return options;
}

std::vector<std::string> InputNames(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const InputSpec& input : spec.inputs) names.push_back(input.name);
  return names;
}

std::vector<std::string> StepNames(const std::vector<WarmupStep>& plan) {
  std::vector<std::string> names;
  names.reserve(plan.size());
  for (const WarmupStep& step : plan) names.push_back(step.name);
  return names;
}

std::vector<std::string_view> TierNames(const ModelSpec& spec) {
  std::vector<std::string_view> tiers = {"eager", "aot"};
  if (spec.compile.dynamic != DynamicForms::kNone)
    tiers.emplace_back("dynamic");
  if (spec.on_gpu()) tiers.emplace_back("graph");
  return tiers;
}

std::vector<RunDemand> DemandsOf(const Placement& placement) {
  std::vector<RunDemand> demands;
  for (const DevicePlace& place : placement.places) {
    demands.push_back({place.name, place.turns, place.resources});
  }
  return demands;
}

}  // namespace

ModelVersion::ModelVersion(std::shared_ptr<const ModelSpec> spec,
                           const VersionDeps& deps)
    : spec_(std::move(spec)),
      deps_(deps),
      labels_(VersionLabels(*spec_)),
      cpus_(InstanceCpus(*spec_)),
      compute_threads_(ComputeThreads(*spec_, cpus_, deps.cores)),
      table_(spec_->buckets, Paddable(*spec_)),
      input_names_(InputNames(*spec_)),
      plan_(MakeWarmupPlan(*spec_, deps.toolchain,
                           deps.placement.places.front().name)),
      layout_(LayoutOf(*spec_)),
      made_up_(*spec_),
      last_asked_(deps.clock->Now().ToNanoseconds()),
      stats_(deps.stats != nullptr
                 ? deps.stats
                 : std::make_shared<VersionStats>(
                       deps.request_metrics != nullptr ? *deps.request_metrics
                                                       : *deps.metrics,
                       labels_, StepNames(plan_), TierNames(*spec_))),
      tiers_(*spec_, plan_, deps_),
      contexts_(deps.placement.places.size() *
                static_cast<size_t>(spec_->instances)),
      batcher_(QueueOptions(*spec_, compute_threads_, labels_), layout_, *this,
               DemandsOf(deps.placement), *deps.clock, *deps.metrics),
      device_threads_(batcher_, contexts_, stop_.get_token()),
      warmup_({.spec = *spec_,
               .deps = deps_,
               .plan = plan_,
               .layout = layout_,
               .made_up = made_up_,
               .compute_threads = compute_threads_,
               .tiers = tiers_,
               .batcher = batcher_,
               .device_threads = device_threads_,
               .stop = stop_.get_token()}) {}

ModelVersion::~ModelVersion() { Stop(MonotonicTime::InfinitePast()); }

void ModelVersion::Stop(MonotonicTime deadline) {
  StopWarmup();
  batcher_.Stop(deadline);
}

absl::Status ModelVersion::Load() {
  RETURN_IF_ERROR(cpus_.status());
  if (spec_->isolated()) RETURN_IF_ERROR(CheckIsolated());
  log::Info("{}: {} instance{} of {} thread{}, {}", spec_->Label(),
            contexts_.size(), contexts_.size() == 1 ? "" : "s",
            compute_threads_, compute_threads_ == 1 ? "" : "s", WhereItRuns());
  const MonotonicTime began = deps_.clock->Now();
  absl::Status loaded = warmup_.Load();
  TellWork(deps_.telemetry, *deps_.clock,
           {.name = "load", .model = spec_->name, .version = spec_->version},
           began, loaded);
  return loaded;
}

absl::Status ModelVersion::CheckIsolated() const {
  const std::string calls = absl::StrJoin(
      spec_->unlisted_operators, " and ", [](auto* out, const auto& called) {
        absl::StrAppend(out, called.first, called.second);
      });
  if (deps_.isolated == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec_->program_path,
        ": expected operators that no values can lead astray, got ", calls,
        "; stokerd --unlisted-operators isolate serves it in a process of its "
        "own, uncompiled"));
  }
  if (spec_->on_gpu()) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec_->program_path, ": expected a program that can share its process ",
        "with others on a GPU, got one that calls ", calls,
        ", which values might lead astray; it can be served on the CPU"));
  }
  log::Warn(
      "{}: runs uncompiled, each time in a process of its own: calls {}, "
      "which values might lead astray",
      spec_->Label(), calls);
  return absl::OkStatus();
}

std::string ModelVersion::WhereItRuns() const {
  if (!cpus_.ok() || cpus_->empty()) {
    return absl::StrCat("on any of the CPUs ", CpuList(UsableCpus()));
  }
  return absl::StrCat("on the CPUs ",
                      absl::StrJoin(*cpus_, " and ", [](auto* out, auto& set) {
                        out->append(CpuList(set));
                      }));
}

absl::Status CheckSizes(const ModelSpec& spec, const BucketTable& table,
                        const DimensionSizes& sizes) {
  for (size_t i = 0; i < spec.dimensions.size(); ++i) {
    const DimensionSpec& dimension = spec.dimensions[i];
    const int64_t size = sizes[i];
    if (size < dimension.min || size > dimension.max) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "unexpected size of dimension '%s' for model '%s': expected %d to "
          "%d, got %d",
          dimension.name, spec.name, dimension.min, dimension.max, size));
    }
  }
  if (spec.unmatched == Unmatched::kReject && !table.Match(sizes).has_value()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "request fits no bucket of model '%s' and its model.yaml says "
        "'unmatched: reject'; sizes %s",
        spec.name, BucketName(ShapeBucket{sizes}, spec.DimensionNames())));
  }
  return absl::OkStatus();
}

absl::Status ModelVersion::Submit(std::unique_ptr<InferTask>& task) {
  RETURN_IF_ERROR(CheckSizes(*spec_, table_, task->sizes));
  last_asked_ = deps_.clock->Now().ToNanoseconds();
  const DimensionSizes sizes = task->sizes;
  if (deps_.samples != nullptr && deps_.samples->Draw()) {
    deps_.samples->Keep(sizes, input_names_, task->inputs);
  }
  RETURN_IF_ERROR(batcher_.Enqueue(task));
  if (deps_.traffic != nullptr) deps_.traffic->RecordRequest(sizes);
  return absl::OkStatus();
}

int ModelVersion::Match(absl::Span<const int64_t> sizes) const {
  return table_.Match(sizes).value_or(-1);
}

int ModelVersion::bucket_count() const {
  return static_cast<int>(spec_->buckets.size());
}

const ShapeBucket& ModelVersion::bucket(int index) const {
  return spec_->buckets[static_cast<size_t>(index)];
}

void ModelVersion::StartThread(int thread) {
  const auto index = static_cast<size_t>(thread);
  if (cpus_.ok() && !cpus_->empty()) {
    // Before the compute threads begin, which get the same CPUs.
    const absl::Status pinned = PinThread((*cpus_)[index % cpus_->size()]);
    if (!pinned.ok()) {
      log::Warn("{}: not confined: {}", spec_->Label(), Std(pinned.message()));
    }
  }
  contexts_[index] =
      tiers_.device(thread).place.loader->NewContext(compute_threads_);
}

void ModelVersion::Idle(int thread, absl::FunctionRef<void()> wait) {
  contexts_[static_cast<size_t>(thread)]->Idle(wait);
}

Buffer ModelVersion::NewBuffer(int thread, size_t bytes) {
  return contexts_[static_cast<size_t>(thread)]->NewBuffer(bytes);
}

BatchRunner::Outcome ModelVersion::Run(int thread, int bucket,
                                       absl::Span<const Tensor> inputs) {
  return tiers_.Run(*contexts_[static_cast<size_t>(thread)], thread, bucket,
                    inputs);
}

bool ModelVersion::KeepsToThread(int bucket) const {
  // Who confines the instances wants them to run where he said.
  if (spec_->on_gpu() || !cpus_.ok() || !cpus_->empty()) return false;
  return tiers_.KeepsToThread(bucket);
}

BatchRunner::Outcome ModelVersion::RunHere(int bucket,
                                           absl::Span<const Tensor> inputs) {
  // Sets the thread's number of compute threads, which is the same for all
  // versions.
  thread_local const std::unique_ptr<ExecutionContext> one_thread =
      tiers_.device(0).place.loader->NewContext(1);
  return tiers_.Run(*one_thread, 0, bucket, inputs);
}

void ModelVersion::OnBatch(const BatchReport& report) {
  stats_->RecordBatch(report.rows, report.assemble, report.run, report.split);
  if (deps_.traffic != nullptr && spec_->batch_dimension.has_value()) {
    deps_.traffic->RecordRun(report.rows, report.requests);
  }
}

std::vector<BucketStatus> ModelVersion::Buckets() const {
  const MonotonicTime now = deps_.clock->Now();
  std::vector<BucketStatus> buckets;
  for (const WarmupStep& step : plan_) {
    BucketStatus& bucket = buckets.emplace_back();
    bucket.model = spec_->Label();
    bucket.bucket = step.name;
    bucket.dynamic = step.dynamic();
    bucket.slot = tiers_.slot(step.bucket).Read();
    if (bucket.slot.state != BucketState::kCompiling) continue;
    const BucketCompiles::Phase phase = warmup_.PhaseOf(step.bucket);
    if (phase.name.empty()) continue;
    bucket.phase = phase.name;
    bucket.in_phase = now - phase.since;
  }
  return buckets;
}

std::string ModelVersion::DeviceNames() const {
  return absl::StrJoin(
      deps_.placement.places, ", ",
      [](std::string* out, const DevicePlace& place) { *out += place.name; });
}

std::string ModelVersion::ProgressText() const {
  if (tiers_.AllSettled()) return "";
  size_t settled = 0;
  std::string current;
  for (const BucketStatus& bucket : Buckets()) {
    if (IsSettled(bucket.slot.state)) {
      ++settled;
      continue;
    }
    if (!current.empty() || bucket.slot.state == BucketState::kPending) {
      continue;
    }
    current =
        bucket.phase.empty()
            ? absl::StrCat("; ", bucket.bucket, ": ",
                           Absl(BucketStateName(bucket.slot.state)))
            : absl::StrFormat("; %s: %s, %.0f s", bucket.bucket, bucket.phase,
                              absl::ToDoubleSeconds(bucket.in_phase));
  }
  return absl::StrCat(settled, " of ", plan_.size(), " buckets settled",
                      current);
}

}  // namespace stoker
