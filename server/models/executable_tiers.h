// What can run a version's requests, and in which order it is asked: a bucket's
// own compiled code or a CUDA graph of it, a dynamic form that takes the sizes,
// eager. Whoever is lost falls to the next; eager is always there, or opened
// again. Doesn't decide what is good enough to serve: the warm-up does.
//
// Thread-safe. Executables are per device thread: Run is for the thread that it
// names, or in its stead.
#pragma once

#include <atomic>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "batching/batcher.h"
#include "metrics/metrics.h"
#include "models/bucket_slot.h"
#include "models/host_memory.h"
#include "models/version_deps.h"
#include "models/warmup_pace.h"
#include "planning/warmup_plan.h"
#include "repository/model_spec.h"
#include "runner/executable_loader.h"
#include "runner/spare_memory.h"

namespace stoker {

class ExecutableTiers {
 public:
  // A slot for each step of the plan: the buckets, then the dynamic forms. All
  // three outlive this object.
  ExecutableTiers(const ModelSpec& spec, const std::vector<WarmupStep>& plan,
                  const VersionDeps& deps);

  // --- serving ---

  // Runs the inputs, padded to `bucket` (-1: to none), with the best that is
  // there for device thread `thread`. An INTERNAL error of anything but eager
  // has eager answer instead; the tier is lost unless eager refuses it too. One
  // of a bucket that finds no memory is made again when others' spare memory on
  // the device is free (runner/spare_memory.h).
  BatchRunner::Outcome Run(ExecutionContext& context, int thread, int bucket,
                           absl::Span<const Tensor> inputs);
  // Whether a run in `bucket` computes on the calling thread alone.
  bool KeepsToThread(int bucket) const;

  // --- what is there ---

  // What is there once for each device.
  struct OnDevice {
    DevicePlace place;
    std::shared_ptr<WeightStore> weights;  // null before MapWeights
  };
  // Of device thread `thread`: threads are dealt out by devices, `instances` to
  // each.
  const OnDevice& device(int thread) const {
    return devices_[DeviceOf(thread)];
  }
  // On each device; before anything is opened.
  absl::Status MapWeights();
  // Of a version that is asked for eight-bit integers, which is on one device;
  // null before MapWeights, and without torch.
  Int8Linears* int8() const { return int8_; }
  // Opened when it isn't: whoever needs it first waits for that.
  absl::StatusOr<std::shared_ptr<Executable>> Eager(int thread = 0)
      ABSL_LOCKS_EXCLUDED(eager_mu_);
  // Frees its memory until it is asked for again.
  void CloseEager() ABSL_LOCKS_EXCLUDED(eager_mu_);

  // What it takes of the host's memory now. Never waits.
  HostMemory host_memory() const;

  int size() const { return static_cast<int>(slots_.size()); }
  // Promotion and demotion change what runs in other slots, too: they go
  // through this object.
  BucketSlot& slot(int index) { return slots_[static_cast<size_t>(index)]; }
  const BucketSlot& slot(int index) const {
    return slots_[static_cast<size_t>(index)];
  }
  // The first dynamic form that serves and takes inputs of these shapes; -1:
  // none does.
  int DynamicFor(int thread, absl::Span<const Tensor> inputs) const;
  bool AllSettled() const;
  bool DynamicSettled() const;  // every dynamic form
  bool AllCompiled() const;     // nothing is left to eager
  bool AllIn(std::initializer_list<BucketState> states) const;
  // What was settled before doesn't count for the pace.
  void BeginPace() { pace_.Begin(); }
  WarmupProgress progress() const { return pace_.Read(); }

  // --- changes ---

  // As BucketSlot's.
  void Promote(int index, std::vector<std::shared_ptr<Executable>> executables,
               const Verdict& verdict, const CacheEntry& entry);
  // The bucket is settled on the tier below; `why` is for people.
  void Demote(int index, FallbackReason reason, std::string_view why);
  // As Demote, for what somebody may want to look into: warned of and counted.
  void FallBack(int index, FallbackReason reason, std::string_view why);
  // The bucket goes on without a graph: `label` is the outcome of
  // stoker_graph_captures_total.
  void DropGraph(int index, std::string_view label, std::string_view why);

 private:
  size_t DeviceOf(int thread) const {
    return static_cast<size_t>(thread / spec_.instances);
  }
  int buckets() const { return static_cast<int>(spec_.buckets.size()); }
  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const OnDevice& device) const;
  // False where it isn't open, and while it opens.
  bool EagerKeepsToContext() const ABSL_LOCKS_EXCLUDED(eager_mu_);
  // With errors for who knows the program by its name.
  BatchRunner::Outcome RunOf(Executable& executable, ExecutionContext& context,
                             absl::Span<const Tensor> inputs) const;
  BatchRunner::Outcome RunEager(ExecutionContext& context, int thread,
                                absl::Span<const Tensor> inputs);
  // nullopt: nothing is compiled there.
  std::optional<BatchRunner::Outcome> RunCompiled(
      ExecutionContext& context, int thread, int index,
      absl::Span<const Tensor> inputs);
  // Run, without what others can do without.
  BatchRunner::Outcome RunBest(ExecutionContext& context, int thread,
                               int bucket, absl::Span<const Tensor> inputs);
  // SpareMemory::Release of graphs, and of eager where every bucket is
  // compiled.
  bool ShedGraphs(std::string_view whom);
  bool ShedEager(std::string_view whom) ABSL_LOCKS_EXCLUDED(eager_mu_);
  // Says of each bucket without code of its own what runs there.
  void UpdateFloors();
  void UpdatePace();

  const ModelSpec& spec_;
  const VersionDeps& deps_;
  const Labels labels_;

  std::deque<BucketSlot> slots_;   // with locks of their own
  WarmupPace pace_;                // the same
  std::atomic<bool> lost_{false};  // it was said that the weights are

  // Weights are written once, before anything is opened with them.
  std::vector<OnDevice> devices_;
  Int8Linears* int8_ = nullptr;
  std::atomic<bool> mapped_{false};
  // Held while opening: one open, the others wait.
  mutable absl::Mutex eager_mu_;
  std::vector<std::shared_ptr<Executable>> eager_
      ABSL_GUARDED_BY(eager_mu_);        // by device
  std::atomic<int64_t> eager_bytes_{0};  // of the host's memory

  // Last: they call what is above.
  std::vector<std::unique_ptr<SpareMemory::Offer>> offers_;
};

}  // namespace stoker
