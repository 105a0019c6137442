#include "models/executable_tiers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "models/padded_run.h"
#include "models/version_labels.h"

namespace stoker {

ExecutableTiers::ExecutableTiers(const ModelSpec& spec,
                                 const std::vector<WarmupStep>& plan,
                                 const VersionDeps& deps)
    : spec_(spec),
      deps_(deps),
      labels_(VersionLabels(spec)),
      pace_(static_cast<int>(plan.size()), labels_, *deps.clock,
            *deps.metrics) {
  for (const WarmupStep& step : plan) {
    slots_.emplace_back(step.name, *deps_.metrics,
                        With(labels_, "bucket", step.name));
    slots_.back().SetKey(step.request.key.hex());
  }
  for (const DevicePlace& place : deps_.placement.places) {
    devices_.push_back({place, nullptr});
  }
  {
    absl::MutexLock lock(&eager_mu_);
    eager_.resize(devices_.size());
  }
  for (const OnDevice& device : devices_) {
    SpareMemory* const spares = device.place.loader->spare_memory();
    if (spares == nullptr) continue;
    offers_.push_back(spares->Add(
        SpareMemory::Kind::kGraphs,
        [this](std::string_view whom) { return ShedGraphs(whom); }));
    offers_.push_back(
        spares->Add(SpareMemory::Kind::kEager,
                    [this](std::string_view whom) { return ShedEager(whom); }));
  }
}

BatchRunner::Outcome ExecutableTiers::Run(ExecutionContext& context, int thread,
                                          int bucket,
                                          absl::Span<const Tensor> inputs) {
  BatchRunner::Outcome outcome = RunBest(context, thread, bucket, inputs);
  SpareMemory* const spares = device(thread).place.loader->spare_memory();
  // A client's own sizes, which may be any, take nothing from others.
  if (spares == nullptr || bucket < 0) return outcome;
  for (const SpareMemory::Kind kind : SpareMemory::kKinds) {
    if (!absl::IsResourceExhausted(outcome.result.status())) break;
    if (!spares->ReleaseAll(kind, spec_.Label())) continue;
    outcome = RunBest(context, thread, bucket, inputs);
  }
  return outcome;
}

BatchRunner::Outcome ExecutableTiers::RunBest(ExecutionContext& context,
                                              int thread, int bucket,
                                              absl::Span<const Tensor> inputs) {
  if (bucket >= 0) {
    if (auto outcome = RunCompiled(context, thread, bucket, inputs)) {
      return *std::move(outcome);
    }
  }
  if (const int dynamic = DynamicFor(thread, inputs); dynamic >= 0) {
    if (auto outcome = RunCompiled(context, thread, dynamic, inputs)) {
      outcome->form = dynamic;
      return *std::move(outcome);
    }
  }
  return RunEager(context, thread, inputs);
}

BatchRunner::Outcome ExecutableTiers::RunEager(
    ExecutionContext& context, int thread, absl::Span<const Tensor> inputs) {
  absl::StatusOr<std::shared_ptr<Executable>> eager = Eager(thread);
  if (!eager.ok()) return {eager.status(), "eager"};
  return RunOf(**eager, context, inputs);
}

BatchRunner::Outcome ExecutableTiers::RunOf(
    Executable& executable, ExecutionContext& context,
    absl::Span<const Tensor> inputs) const {
  BatchRunner::Outcome outcome{executable.Run(context, inputs),
                               executable.tier()};
  if (!outcome.result.ok()) {
    outcome.result = spec_.ByItsName(outcome.result.status());
  }
  return outcome;
}

std::optional<BatchRunner::Outcome> ExecutableTiers::RunCompiled(
    ExecutionContext& context, int thread, int index,
    absl::Span<const Tensor> inputs) {
  BucketSlot& slot = slots_[static_cast<size_t>(index)];
  std::shared_ptr<Executable> compiled =
      slot.executable(thread, context.HasAllThreads());
  if (compiled == nullptr) return std::nullopt;
  const bool dynamic = index >= buckets();
  const MonotonicTime start =
      dynamic ? deps_.clock->Now() : MonotonicTime::InfinitePast();
  BatchRunner::Outcome outcome = RunOf(*compiled, context, inputs);
  if (outcome.tier == "graph" && !outcome.result.ok() &&
      !absl::IsUnavailable(outcome.result.status())) {
    // Memory, or what else: what it was captured of has all that it needs.
    DropGraph(index, "failed", outcome.result.status().ToString());
    compiled = slot.compiled(thread);
    if (compiled == nullptr) return outcome;  // lost meanwhile
    outcome = RunOf(*compiled, context, inputs);
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
    log::Error("{}: {}", spec_.Label(), Std(status.message()));
  }
  if (status.code() != absl::StatusCode::kInternal) return outcome;
  // Of an operator that refuses values compiled code can't say more than that
  // it failed. Where eager doesn't answer either, nothing is shown against it.
  BatchRunner::Outcome eager = RunEager(context, thread, inputs);
  if (eager.result.ok()) {
    FallBack(index, FallbackReason::kRun, status.ToString());
  }
  return eager;
}

bool ExecutableTiers::KeepsToThread(int bucket) const {
  if (const auto compiled = slot(bucket).executable(0)) {
    return compiled->KeepsToContext() &&
           (!slot(bucket).NeedsAllThreads() || EagerKeepsToContext());
  }
  // Which dynamic form there is may be another by the time of the run.
  return spec_.compile.dynamic == DynamicForms::kNone && EagerKeepsToContext();
}

int ExecutableTiers::DynamicFor(int thread,
                                absl::Span<const Tensor> inputs) const {
  for (int index = buckets(); index < size(); ++index) {
    const auto dynamic = slot(index).executable(thread);
    if (dynamic != nullptr && dynamic->Takes(inputs)) return index;
  }
  return -1;
}

absl::Status ExecutableTiers::MapWeights() {
  for (OnDevice& device : devices_) {
    auto weights = device.place.loader->MapWeights(spec_.HeldPath());
    if (!weights.ok()) return spec_.ByItsName(weights.status());
    device.weights = *std::move(weights);
    if (spec_.compile.precision == ComputePrecision::kInt8) {
      int8_ = device.place.loader->UseInt8(*device.weights);
    }
  }
  mapped_ = true;
  return spec_.CheckUnchanged();
}

HostMemory ExecutableTiers::host_memory() const {
  HostMemory memory;
  if (!mapped_) return memory;
  if (!spec_.on_gpu()) {
    memory.weights = spec_.weights_bytes;
    for (const OnDevice& device : devices_) {
      if (device.weights == nullptr) continue;  // without torch
      memory.packed += device.place.loader->PackedBytes(*device.weights);
    }
  }
  memory.eager = eager_bytes_;
  for (const BucketSlot& slot : slots_) {
    // Device threads have the same library.
    if (const auto compiled = slot.compiled(0)) {
      memory.code += compiled->host_bytes();
    }
  }
  return memory;
}

absl::StatusOr<std::shared_ptr<Executable>> ExecutableTiers::Eager(int thread) {
  absl::MutexLock lock(&eager_mu_);
  std::shared_ptr<Executable>& eager = eager_[DeviceOf(thread)];
  if (eager == nullptr) {
    auto opened = OpenEager(device(thread));
    if (!opened.ok()) return spec_.ByItsName(opened.status());
    RETURN_IF_ERROR(spec_.CheckUnchanged());
    eager = *std::move(opened);
    eager_bytes_ += eager->host_bytes();
    log::Info("{}: eager tier opened{}", spec_.Label(),
              spec_.on_gpu() ? " on " + device(thread).place.name : "");
  }
  return eager;
}

absl::StatusOr<std::shared_ptr<Executable>> ExecutableTiers::OpenEager(
    const OnDevice& device) const {
  if (!spec_.isolated()) {
    return device.place.loader->OpenEager(spec_.HeldPath(), device.weights);
  }
  return std::make_shared<IsolatedEager>(
      *deps_.isolated, spec_.HeldPath(), *deps_.clock,
      deps_.metrics->Counter(metric::kIsolatedRunsLost, labels_));
}

bool ExecutableTiers::EagerKeepsToContext() const {
  if (!eager_mu_.TryLock()) return false;
  const std::shared_ptr<Executable> eager = eager_.front();
  eager_mu_.Unlock();
  return eager != nullptr && eager->KeepsToContext();
}

void ExecutableTiers::CloseEager() {
  // Freed without the lock.
  std::vector<std::shared_ptr<Executable>> closed(devices_.size());
  absl::MutexLock lock(&eager_mu_);
  closed.swap(eager_);
  eager_bytes_ = 0;
  if (closed.front() != nullptr) {
    log::Info("{}: eager tier let go, every bucket is compiled", spec_.Label());
  }
}

bool ExecutableTiers::ShedGraphs(std::string_view whom) {
  bool any = false;
  for (int index = 0; index < size(); ++index) {
    if (slot(index).Read().graph_gain == 0) continue;
    any = true;
    DropGraph(index, "memory",
              absl::StrCat("its memory was wanted by ", Absl(whom)));
  }
  return any;
}

bool ExecutableTiers::ShedEager(std::string_view whom) {
  if (!AllCompiled()) return false;
  // Freed without the lock.
  std::vector<std::shared_ptr<Executable>> closed(devices_.size());
  // It is being opened: not spare.
  if (!eager_mu_.TryLock()) return false;
  closed.swap(eager_);
  eager_bytes_ = 0;
  eager_mu_.Unlock();
  const bool any =
      std::any_of(closed.begin(), closed.end(),
                  [](const auto& eager) { return eager != nullptr; });
  if (any) {
    log::Info("{}: eager tier let go, its memory was wanted by {}",
              spec_.Label(), whom);
  }
  return any;
}

bool ExecutableTiers::AllSettled() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const BucketSlot& slot) { return slot.settled(); });
}

bool ExecutableTiers::DynamicSettled() const {
  return std::all_of(slots_.begin() + buckets(), slots_.end(),
                     [](const BucketSlot& slot) { return slot.settled(); });
}

bool ExecutableTiers::AllCompiled() const {
  return !slots_.empty() &&
         AllIn({BucketState::kCompiled, BucketState::kDynamic}) &&
         std::none_of(slots_.begin(), slots_.end(), [](const BucketSlot& one) {
           return one.NeedsAllThreads();
         });
}

bool ExecutableTiers::AllIn(std::initializer_list<BucketState> states) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const BucketSlot& s) {
    const BucketState state = s.Read().state;
    return std::find(states.begin(), states.end(), state) != states.end();
  });
}

void ExecutableTiers::Promote(
    int index, std::vector<std::shared_ptr<Executable>> executables,
    const Verdict& verdict, const CacheEntry& entry) {
  slots_[static_cast<size_t>(index)].Promote(std::move(executables), verdict,
                                             entry);
  UpdatePace();
  if (index >= buckets()) UpdateFloors();
}

void ExecutableTiers::Demote(int index, FallbackReason reason,
                             std::string_view why) {
  slots_[static_cast<size_t>(index)].Demote(reason, why);
  UpdateFloors();
  UpdatePace();
}

void ExecutableTiers::FallBack(int index, FallbackReason reason,
                               std::string_view why) {
  const std::string_view label = FallbackReasonName(reason);
  const std::string& name = slot(index).name();
  deps_.metrics->Counter(metric::kFallbacks, With(labels_, "reason", label))
      .Add();
  if (deps_.refusals != nullptr) {
    deps_.refusals->Add("promotion", absl::StrCat(spec_.Label(), " ", name),
                        label, why);
  }
  Demote(index, reason, why);
  log::Warn("{} {}: stays on {} ({}): {}", spec_.Label(), name,
            BucketStateName(slot(index).Read().state), label, why);
}

void ExecutableTiers::DropGraph(int index, std::string_view label,
                                std::string_view why) {
  BucketSlot& slot = slots_[static_cast<size_t>(index)];
  deps_.metrics
      ->Counter(metric::kGraphCaptures, With(labels_, "outcome", label))
      .Add();
  const std::string text = absl::StrCat(Absl(label), ": ", Absl(why));
  if (label == "failed") {
    log::Warn("{} {}: no graph ({})", spec_.Label(), slot.name(), text);
  } else {
    log::Info("{} {}: no graph ({})", spec_.Label(), slot.name(), text);
  }
  slot.DropGraphs(text);
}

void ExecutableTiers::UpdateFloors() {
  for (int i = 0; i < buckets(); ++i) {
    const auto bucket = static_cast<size_t>(i);
    const std::vector<Tensor> shapes =
        ShapesOf(spec_, spec_.buckets[bucket].sizes);
    slots_[bucket].SetFloor(DynamicFor(0, shapes) >= 0 ? BucketState::kDynamic
                                                       : BucketState::kEager);
  }
}

void ExecutableTiers::UpdatePace() {
  pace_.Update(static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(),
                    [](const BucketSlot& slot) { return slot.settled(); })));
}

}  // namespace stoker
