#include "models/model_version.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/cpus.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "planning/parity_cases.h"
#include "planning/placement.h"
#include "spdlog/spdlog.h"

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
  options.cores_per_run = spec.on_gpu() ? 1 : threads;
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
  for (const WarmupStep& step : plan) names.push_back(step.name);
  return names;
}

std::vector<std::string_view> Tiers(const ModelSpec& spec) {
  std::vector<std::string_view> tiers = {"eager", "aot"};
  if (spec.compile.dynamic != DynamicForms::kNone) tiers.push_back("dynamic");
  if (spec.on_gpu()) tiers.push_back("graph");
  return tiers;
}

std::vector<DeviceTurns*> TurnsOf(const Placement& placement) {
  std::vector<DeviceTurns*> turns;
  for (const DevicePlace& place : placement.places) {
    turns.push_back(place.turns);
  }
  return turns;
}

}  // namespace

ModelVersion::ModelVersion(std::shared_ptr<const ModelSpec> spec,
                           const VersionDeps& deps)
    : spec_(std::move(spec)),
      deps_(deps),
      labels_(VersionLabels(*spec_)),
      cpus_(InstanceCpus(*spec_)),
      threads_(ComputeThreads(*spec_, cpus_, deps.cores)),
      table_(spec_->buckets, Paddable(*spec_)),
      input_names_(InputNames(*spec_)),
      plan_(MakeWarmupPlan(*spec_, threads_, deps.toolchain,
                           deps.placement.places.front().name)),
      layout_(LayoutOf(*spec_)),
      stats_(*deps.metrics, labels_, StepNames(plan_), Tiers(*spec_)),
      homes_(HomesOf(deps.placement)),
      contexts_(static_cast<size_t>(threads())),
      inbox_(std::make_shared<Inbox>(plan_.size())),
      attempts_(plan_.size(), 0),
      graph_tried_(plan_.size(), false),
      leases_(plan_.size()),
      batcher_(QueueOptions(*spec_, threads_, labels_), layout_, *this,
               TurnsOf(deps.placement), *deps.clock, *deps.metrics) {
  for (const WarmupStep& step : plan_) {
    slots_.emplace_back(step.name, *deps_.metrics,
                        With(labels_, "bucket", step.name));
    slots_.back().SetKey(step.request.key.hex());
  }
  UpdateWarmupGauge();
}

std::vector<ModelVersion::Home> ModelVersion::HomesOf(
    const Placement& placement) {
  std::vector<Home> homes;
  for (const DevicePlace& place : placement.places) {
    homes.push_back({place, nullptr, nullptr});
  }
  return homes;
}

int ModelVersion::threads() const {
  return spec_->instances * static_cast<int>(deps_.placement.places.size());
}

ModelVersion::Home& ModelVersion::HomeOf(int thread) {
  return homes_[static_cast<size_t>(thread / spec_->instances)];
}

ModelVersion::~ModelVersion() { Stop(absl::InfinitePast()); }

void ModelVersion::Stop(absl::Time deadline) {
  {
    absl::MutexLock lock(&inbox_->mu);  // wakes WarmUp, which waits on it
    inbox_->stopping = true;
  }
  batcher_.Stop(deadline);
}

bool ModelVersion::stopping() const {
  absl::MutexLock lock(&inbox_->mu);
  return inbox_->stopping;
}

bool ModelVersion::AllSettled() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const BucketSlot& slot) { return slot.settled(); });
}

bool ModelVersion::AllCompiled() const {
  return !slots_.empty() &&
         AllIn({BucketState::kCompiled, BucketState::kDynamic});
}

bool ModelVersion::FormsSettled() const {
  return std::all_of(slots_.begin() + bucket_count(), slots_.end(),
                     [](const BucketSlot& slot) { return slot.settled(); });
}

bool ModelVersion::AllIn(std::initializer_list<BucketState> states) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const BucketSlot& s) {
    const BucketState state = s.Read().state;
    return std::find(states.begin(), states.end(), state) != states.end();
  });
}

absl::Status ModelVersion::Submit(std::unique_ptr<InferTask>& task) {
  for (size_t i = 0; i < spec_->dimensions.size(); ++i) {
    const DimensionSpec& dimension = spec_->dimensions[i];
    const int64_t size = task->sizes[i];
    if (size < dimension.min || size > dimension.max) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "unexpected size of dimension '%s' for model '%s': expected %d to "
          "%d, got %d",
          dimension.name, spec_->name, dimension.min, dimension.max, size));
    }
  }
  if (spec_->unmatched == Unmatched::kReject && Match(task->sizes) < 0) {
    return absl::OutOfRangeError(absl::StrFormat(
        "request fits no bucket of model '%s' and its model.yaml says "
        "'unmatched: reject'; sizes %s",
        spec_->name,
        BucketName(ShapeBucket{task->sizes}, spec_->DimensionNames())));
  }
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
      spdlog::warn("{}: not confined: {}", spec_->Label(),
                   Std(pinned.message()));
    }
  }
  contexts_[index] = HomeOf(thread).place.loader->NewContext(threads_);
}

void ModelVersion::Idle(int thread, absl::FunctionRef<void()> wait) {
  contexts_[static_cast<size_t>(thread)]->Idle(wait);
}

Buffer ModelVersion::NewBuffer(int thread, size_t bytes) {
  return contexts_[static_cast<size_t>(thread)]->NewBuffer(bytes);
}

BatchRunner::Outcome ModelVersion::Run(int thread, int bucket,
                                       absl::Span<const Tensor> inputs) {
  return RunIn(*contexts_[static_cast<size_t>(thread)], thread, bucket, inputs);
}

bool ModelVersion::KeepsToThread(int bucket) const {
  // Who confines the instances wants them to run where he said.
  if (spec_->on_gpu() || !cpus_.ok() || !cpus_->empty()) return false;
  const BucketSlot& slot = slots_[static_cast<size_t>(bucket)];
  if (const auto compiled = slot.executable(0)) {
    return compiled->KeepsToContext();
  }
  // Which form there is may be another by the time of the run.
  return spec_->compile.dynamic == DynamicForms::kNone && EagerIsOpen();
}

BatchRunner::Outcome ModelVersion::RunHere(int bucket,
                                           absl::Span<const Tensor> inputs) {
  // Sets the thread's number of compute threads, which is the same for all
  // versions.
  thread_local const std::unique_ptr<ExecutionContext> one_thread =
      homes_.front().place.loader->NewContext(1);
  return RunIn(*one_thread, 0, bucket, inputs);
}

BatchRunner::Outcome ModelVersion::RunIn(ExecutionContext& context, int thread,
                                         int bucket,
                                         absl::Span<const Tensor> inputs) {
  if (bucket >= 0) {
    if (auto outcome = RunSlot(context, thread, bucket, inputs)) {
      return *std::move(outcome);
    }
  }
  if (const int form = FormFor(thread, inputs); form >= 0) {
    if (auto outcome = RunSlot(context, thread, form, inputs)) {
      outcome->form = form;
      return *std::move(outcome);
    }
  }
  absl::StatusOr<std::shared_ptr<Executable>> eager = Eager(thread);
  if (!eager.ok()) return {eager.status(), "eager"};
  return {(*eager)->Run(context, inputs), (*eager)->tier()};
}

std::optional<BatchRunner::Outcome> ModelVersion::RunSlot(
    ExecutionContext& context, int thread, int index,
    absl::Span<const Tensor> inputs) {
  BucketSlot& slot = slots_[static_cast<size_t>(index)];
  std::shared_ptr<Executable> compiled = slot.executable(thread);
  if (compiled == nullptr) return std::nullopt;
  const bool dynamic = index >= bucket_count();
  const absl::Time start = dynamic ? deps_.clock->Now() : absl::InfinitePast();
  Outcome outcome{compiled->Run(context, inputs), compiled->tier()};
  if (outcome.tier == "graph" && !outcome.result.ok() &&
      !absl::IsUnavailable(outcome.result.status())) {
    // Memory, or what else: the form below has all that it needs.
    RefuseGraph(index, {"failed", outcome.result.status().ToString()});
    compiled = slot.compiled(thread);
    if (compiled == nullptr) return outcome;  // lost meanwhile
    outcome = {compiled->Run(context, inputs), compiled->tier()};
  }
  if (outcome.result.ok()) {
    if (dynamic) {
      slot.CountRun(deps_.clock->Now() - start);
    } else {
      slot.CountRun();
    }
    return outcome;
  }
  const absl::Status& status = outcome.result.status();
  if (absl::IsDataLoss(status) && !lost_.exchange(true)) {
    spdlog::error("{}: {}", spec_->Label(), Std(status.message()));
  }
  if (status.code() != absl::StatusCode::kInternal) return outcome;
  // The tier is lost, the request is not.
  FallBack(index, "run", status.ToString());
  return std::nullopt;
}

int ModelVersion::FormFor(int thread, absl::Span<const Tensor> inputs) const {
  for (size_t i = spec_->buckets.size(); i < slots_.size(); ++i) {
    const auto form = slots_[i].executable(thread);
    if (form != nullptr && form->Takes(inputs)) return static_cast<int>(i);
  }
  return -1;
}

void ModelVersion::UpdateFloors() {
  for (size_t i = 0; i < spec_->buckets.size(); ++i) {
    const std::vector<Tensor> shapes =
        ShapesOf(*spec_, spec_->buckets[i].sizes);
    slots_[i].SetFloor(FormFor(0, shapes) >= 0 ? BucketState::kDynamic
                                               : BucketState::kEager);
  }
}

void ModelVersion::OnBatch(const BatchReport& report) {
  stats_.RecordBatch(report.rows, report.assemble, report.run, report.split);
  if (deps_.traffic != nullptr && spec_->batch_dimension.has_value()) {
    deps_.traffic->RecordRun(report.rows, report.requests);
  }
}

absl::StatusOr<std::shared_ptr<Executable>> ModelVersion::Eager(int thread) {
  Home& home = HomeOf(thread);
  absl::MutexLock lock(&eager_mu_);
  if (home.eager == nullptr) {
    ASSIGN_OR_RETURN(home.eager,
                     home.place.loader->OpenEager(spec_->program_path));
    spdlog::info("{}: eager tier opened{}", spec_->Label(),
                 spec_->on_gpu() ? " on " + home.place.name : "");
  }
  return home.eager;
}

bool ModelVersion::EagerIsOpen() const {
  if (!eager_mu_.TryLock()) return false;
  const bool open = homes_.front().eager != nullptr;
  eager_mu_.Unlock();
  return open;
}

void ModelVersion::LetEagerGo() {
  // Freed without the lock.
  std::vector<std::shared_ptr<Executable>> eager(homes_.size());
  absl::MutexLock lock(&eager_mu_);
  for (size_t i = 0; i < homes_.size(); ++i) eager[i].swap(homes_[i].eager);
  if (eager.front() != nullptr) {
    spdlog::info("{}: eager tier let go, every bucket is compiled",
                 spec_->Label());
  }
}

void ModelVersion::FallBack(int bucket, std::string_view reason_label,
                            std::string reason) {
  const BucketSlot& slot = slots_[static_cast<size_t>(bucket)];
  deps_.metrics
      ->Counter(metric::kFallbacks, With(labels_, "reason", reason_label))
      .Add();
  if (deps_.refusals != nullptr) {
    deps_.refusals->Add("promotion",
                        absl::StrCat(spec_->Label(), " ", slot.name()),
                        reason_label, reason);
  }
  Demote(bucket, absl::StrCat(Absl(reason_label), ": ", reason));
  spdlog::warn("{} {}: stays on {} ({}): {}", spec_->Label(), slot.name(),
               BucketStateName(slot.Read().state), reason_label, reason);
}

void ModelVersion::Demote(int index, std::string why) {
  slots_[static_cast<size_t>(index)].Demote(std::move(why));
  UpdateFloors();
  UpdateWarmupGauge();
}

void ModelVersion::UpdateWarmupGauge() {
  const auto settled = static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(),
                    [](const BucketSlot& slot) { return slot.settled(); }));
  auto set = [&](std::string_view progress, double value) {
    deps_.metrics
        ->Gauge(metric::kWarmupBuckets, With(labels_, "progress", progress))
        .Set(value);
  };
  set("total", static_cast<double>(plan_.size()));
  set("settled", static_cast<double>(settled));
  absl::MutexLock lock(&pace_mu_);
  if (settled != pace_.settled) pace_.last = deps_.clock->Now();
  pace_.settled = settled;
}

std::vector<BucketStatus> ModelVersion::Buckets() const {
  const absl::Time now = deps_.clock->Now();
  std::vector<BucketStatus> buckets;
  for (size_t i = 0; i < slots_.size(); ++i) {
    BucketStatus& bucket = buckets.emplace_back();
    bucket.model = spec_->Label();
    bucket.bucket = slots_[i].name();
    bucket.dynamic = plan_[i].dynamic();
    bucket.slot = slots_[i].Read();
    if (bucket.slot.state != BucketState::kCompiling) continue;
    absl::MutexLock lock(&inbox_->mu);
    const Inbox::Phase& phase = inbox_->phases[i];
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

std::string ModelVersion::Progress() const {
  if (AllSettled()) return "";
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
  return absl::StrCat(settled, " of ", slots_.size(), " buckets settled",
                      current);
}

WarmupProgress ModelVersion::Warmup() const {
  absl::MutexLock lock(&pace_mu_);
  WarmupProgress progress{pace_.settled, static_cast<int>(slots_.size()),
                          std::nullopt};
  const int done = pace_.settled - pace_.settled_before;
  const int left = progress.total - progress.settled;
  if (pace_.start == absl::InfiniteFuture() || done <= 0 || left <= 0) {
    return progress;
  }
  const absl::Duration each = (pace_.last - pace_.start) / done;
  progress.left = std::max(each * left - (deps_.clock->Now() - pace_.last),
                           absl::Seconds(1));
  return progress;
}

}  // namespace stoker
