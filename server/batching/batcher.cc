#include "batching/batcher.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "batching/batch.h"
#include "batching/batch_executor.h"
#include "batching/batch_planner.h"
#include "batching/bucket_costs.h"
#include "batching/device_work.h"
#include "batching/expiry_timer.h"
#include "batching/task_queue.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

// Runs that are quicker than this are made by the thread that brings the task.
// To hand one over to a device thread costs about 30 us of both, and 60 to 80
// us until it has woken up: shared by all tasks of a batch when there are
// several.
constexpr absl::Duration kQuickRun = absl::Microseconds(20);
constexpr absl::Duration kQuickRunAlone = absl::Microseconds(100);

}  // namespace

struct Batcher::Impl {
  Impl(BatcherOptions options_in, BatchLayout layout_in, BatchRunner& runner_in,
       const std::vector<RunDemand>& devices, Clock& clock_in,
       MetricSource& metrics_in)
      : options(std::move(options_in)),
        layout(std::move(layout_in)),
        runner(runner_in),
        clock(clock_in),
        metrics(metrics_in),
        rules(layout, runner),
        costs(rules.lanes().buckets()),
        queue_length(metrics.Gauge(metric::kQueueLength, options.labels)),
        queue(options.batching),
        planner(rules.lanes(), layout.max_batch_rows, layout.max_batch_tasks),
        work(options.threads),
        timer(clock, [this](MonotonicTime now) { return EndExpired(now); }),
        here(BatchExecutor::kHere, rules, runner, costs, clock, metrics,
             options.labels, abandon) {
    for (const RunDemand& device : devices) {
      turns.emplace_back(device, options.share_per_run, options.weight, metrics,
                         options.labels);
    }
  }

  void StartThreads();
  absl::Status Enqueue(std::unique_ptr<InferTask>& task);
  void SweepCancelled();
  absl::Status RunOnDeviceThread(int thread, std::function<void()> body);
  void Stop(MonotonicTime deadline);

  // What a device thread does next: one of the two, or neither.
  struct Job {
    DeviceWork::Item* work = nullptr;
    std::optional<Batch> batch;
    RunTurns::Turn turn;
  };

  // Why a device thread leaves the tasks that wait where they are.
  struct Wait {
    MonotonicTime until = MonotonicTime::InfinitePast();  // it does not
    uint64_t arrivals = 0;  // that had been when it decided to
  };

  void DeviceLoop(int thread);
  bool AwaitJob(int thread, const Wait& wait);
  // The turn, where the calling thread is to run the task itself.
  std::optional<RunTurns::Turn> TurnHereLocked(const InferTask& task,
                                               MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  absl::Status PushLocked(std::unique_ptr<InferTask>& task, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The caller has set runs_here.
  void RunHere(std::unique_ptr<InferTask> task, MonotonicTime now,
               RunTurns::Turn turn) ABSL_LOCKS_EXCLUDED(mu);
  Wait TakeBatchLocked(MonotonicTime now, Job& job,
                       std::vector<EndedTask>& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Waits for a job; nullopt when there will be none any more. `turn`: asked
  // for already, or empty.
  std::optional<Job> NextJob(int thread, RunTurns::Turn turn);
  bool HasJob(int thread) const;
  RunTurns& TurnsOf(int thread) {
    const size_t each = static_cast<size_t>(options.threads) / turns.size();
    return turns[static_cast<size_t>(thread) / each];
  }
  void FinishJob(const Job& job);
  // Returns when the next task is due.
  MonotonicTime EndExpired(MonotonicTime now) ABSL_LOCKS_EXCLUDED(mu);

  bool HasJobLocked(int thread) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || !queue.empty() || !work.empty(thread);
  }
  // By the caller that runs a task in its stead.
  bool ReplacedLocked(int thread) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return runs_here && thread == 0;
  }
  bool IsIdleLocked() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return queue.empty() && running_jobs == 0;
  }
  void UpdateLengthLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    queue_length.Set(static_cast<double>(queue.size()));
  }

  // Constant.
  const BatcherOptions options;
  const BatchLayout layout;

  // With synchronisation of their own.
  BatchRunner& runner;
  Clock& clock;
  MetricSource& metrics;
  const BatchRules rules;
  BucketCosts costs;
  std::deque<RunTurns> turns;        // of each device
  std::atomic<bool> abandon{false};  // the drain's deadline has passed

  mutable absl::Mutex mu;
  Gauge queue_length ABSL_GUARDED_BY(mu);
  TaskQueue queue ABSL_GUARDED_BY(mu);
  BatchPlanner planner ABSL_GUARDED_BY(mu);
  uint64_t planned_costs ABSL_GUARDED_BY(mu) = 0;  // their generation
  uint64_t arrivals ABSL_GUARDED_BY(mu) = 0;
  DeviceWork work ABSL_GUARDED_BY(mu);
  int running_jobs ABSL_GUARDED_BY(mu) = 0;
  // A thread that brought a task runs it, in device thread 0's stead.
  bool runs_here ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;

  ExpiryTimer timer;
  BatchExecutor here;  // of the thread that set runs_here

  absl::Mutex threads_mu;
  std::vector<Thread> device_threads ABSL_GUARDED_BY(threads_mu);
};

void Batcher::Impl::StartThreads() {
  timer.Start("due-" + options.name);
  absl::MutexLock lock(&threads_mu);
  for (int i = 0; i < options.threads; ++i) {
    device_threads.emplace_back("dev-" + options.name,
                                [this, i] { DeviceLoop(i); });
  }
}

absl::Status Batcher::Impl::Enqueue(std::unique_ptr<InferTask>& task) {
  if (absl::Status status = rules.CheckTask(*task); !status.ok()) return status;
  task->lane = rules.LaneOf(*task);
  const MonotonicTime now = clock.Now();
  std::optional<RunTurns::Turn> turn;
  {
    absl::MutexLock lock(&mu);
    if (stopping) {
      return absl::UnavailableError(absl::StrCat(
          "'", options.name, "' is stopping and takes no more requests"));
    }
    turn = TurnHereLocked(*task, now);
    if (!turn) return PushLocked(task, now);
    runs_here = true;
    ++running_jobs;
  }
  RunHere(std::move(task), now, *std::move(turn));
  return absl::OkStatus();
}

std::optional<RunTurns::Turn> Batcher::Impl::TurnHereLocked(
    const InferTask& task, MonotonicTime now) {
  if (running_jobs > 0 || !queue.empty() || !work.empty(0) ||
      !task.may_run_here) {
    return std::nullopt;
  }
  if (options.batching.max_queue_delay > absl::ZeroDuration() ||
      task.deadline <= now || IsCancelled(task)) {
    return std::nullopt;
  }
  const int bucket = rules.BucketAlone(task);
  if (bucket < 0 || !runner.KeepsToThread(bucket) ||
      !costs.Within(bucket, task.alone ? kQuickRunAlone : kQuickRun)) {
    return std::nullopt;
  }
  return TurnsOf(0).TryTake();
}

void Batcher::Impl::RunHere(std::unique_ptr<InferTask> task, MonotonicTime now,
                            RunTurns::Turn turn) {
  task->enqueued = now;
  here.Execute(rules.Begin(std::move(task), now));
  turn.End();
  here.Deliver();
  absl::MutexLock lock(&mu);
  runs_here = false;
  --running_jobs;
}

absl::Status Batcher::Impl::PushLocked(std::unique_ptr<InferTask>& task,
                                       MonotonicTime now) {
  const InferTask& pushed = *task;
  RETURN_IF_ERROR(queue.Push(task, now));
  timer.WakeBy(std::min(pushed.deadline, pushed.expiry));
  ++arrivals;
  UpdateLengthLocked();
  return absl::OkStatus();
}

void Batcher::Impl::SweepCancelled() {
  std::vector<EndedTask> ended;
  {
    absl::MutexLock lock(&mu);
    queue.TakeCancelled(ended);
    UpdateLengthLocked();
  }
  EndTasks(std::move(ended));
}

absl::Status Batcher::Impl::RunOnDeviceThread(int thread,
                                              std::function<void()> body) {
  if (thread < 0 || thread >= options.threads) {
    return absl::InvalidArgumentError(
        absl::StrCat("device thread of '", options.name, "': expected 0 to ",
                     options.threads - 1, ", got ", thread));
  }
  using State = DeviceWork::Item::State;
  DeviceWork::Item item;
  item.work = std::move(body);
  absl::MutexLock lock(&mu);
  item.state = stopping ? State::kRefused : item.state;
  if (!stopping) work.Add(thread, item);
  const auto settled = [&item] { return item.state != State::kWaiting; };
  mu.Await(absl::Condition(&settled));
  if (item.state == State::kOver) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("'", options.name, "' is stopping"));
}

void Batcher::Impl::Stop(MonotonicTime deadline) {
  std::vector<EndedTask> ended;
  {
    absl::MutexLock lock(&mu);
    stopping = true;
    work.RefuseAll();
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu) {
      return IsIdleLocked();
    };
    clock.AwaitWithDeadline(&mu, absl::Condition(&idle), deadline);
    abandon.store(true);
    queue.TakeAll(StoppedStatus(), ended);
    UpdateLengthLocked();
  }
  EndTasks(std::move(ended));
  // Whoever stops it too waits here until the threads have ended.
  absl::MutexLock lock(&threads_mu);
  for (Thread& thread : device_threads) thread.Join();
  for (RunTurns& of_device : turns) of_device.Leave();
  timer.Stop();
}

void Batcher::Impl::DeviceLoop(int thread) {
  runner.StartThread(thread);
  BatchExecutor executor(thread, rules, runner, costs, clock, metrics,
                         options.labels, abandon);
  for (std::optional<Job> job = NextJob(thread, {}); job;) {
    if (job->work != nullptr) job->work->work();
    if (job->batch) executor.Execute(*std::move(job->batch));
    RunTurns::Turn turn = std::move(job->turn);
    bool goes_on = false;
    if (HasJob(thread)) {
      goes_on = turn.Renew();
    } else {
      turn.End();
    }
    const auto next = [&] {
      executor.Deliver();
      FinishJob(*job);
      job = NextJob(thread, std::move(turn));
    };
    // Whoever gets the answers, or the next turn, has a use for the cores.
    if (goes_on) {
      next();
    } else {
      runner.Idle(thread, next);
    }
  }
}

bool Batcher::Impl::HasJob(int thread) const {
  absl::MutexLock lock(&mu);
  return HasJobLocked(thread);
}

std::optional<Batcher::Impl::Job> Batcher::Impl::NextJob(int thread,
                                                         RunTurns::Turn turn) {
  Wait wait;
  // A turn that was asked for is never kept while jobs are waited for.
  while (!turn.empty() || AwaitJob(thread, wait)) {
    Job job;
    job.turn = std::move(turn);
    TurnsOf(thread).Complete(job.turn);
    const MonotonicTime now = clock.Now();
    std::vector<EndedTask> ended;
    {
      absl::MutexLock lock(&mu);
      // Another thread may have been faster, or be running a task in this one's
      // stead by now.
      if (!ReplacedLocked(thread)) {
        job.work = work.Take(thread);
        if (job.work == nullptr && !queue.empty()) {
          wait = TakeBatchLocked(now, job, ended);
        }
      }
      ++running_jobs;  // before `ended` ends, so that Stop waits for that too
    }
    EndTasks(std::move(ended));
    if (job.work != nullptr || job.batch) return job;
    FinishJob(job);
  }
  return std::nullopt;
}

// Until there is a job; for a queue that has only tasks that may wait for
// company, until more arrive or the first has waited long enough. False when
// there will be no job any more.
bool Batcher::Impl::AwaitJob(int thread, const Wait& wait) {
  const auto has_job = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu) {
    if (ReplacedLocked(thread)) return false;
    return stopping || !work.empty(thread) ||
           (!queue.empty() && (wait.until == MonotonicTime::InfinitePast() ||
                               arrivals != wait.arrivals));
  };
  absl::MutexLock lock(&mu);
  if (wait.until == MonotonicTime::InfinitePast()) {
    mu.Await(absl::Condition(&has_job));
  } else {
    clock.AwaitWithDeadline(&mu, absl::Condition(&has_job), wait.until);
  }
  return !stopping || !work.empty(thread) || !queue.empty();
}

Batcher::Impl::Wait Batcher::Impl::TakeBatchLocked(
    MonotonicTime now, Job& job, std::vector<EndedTask>& ended) {
  if (const uint64_t latest = costs.Generation(now); latest != planned_costs) {
    planner.SetCosts(costs.Estimates());
    planned_costs = latest;
  }
  const bool may_wait =
      options.batching.max_queue_delay > absl::ZeroDuration() && !stopping;
  TaskQueue::Taken taken =
      queue.TakeBatch(rules, planner, now, may_wait, ended);
  UpdateLengthLocked();
  job.batch = std::move(taken.batch);
  if (job.batch || queue.empty()) return {};
  return {taken.wait_until, arrivals};
}

void Batcher::Impl::FinishJob(const Job& job) {
  absl::MutexLock lock(&mu);
  --running_jobs;
  if (job.work != nullptr) job.work->state = DeviceWork::Item::State::kOver;
}

MonotonicTime Batcher::Impl::EndExpired(MonotonicTime now) {
  std::vector<EndedTask> ended;
  MonotonicTime next;
  {
    absl::MutexLock lock(&mu);
    next = queue.TakeExpired(now, ended);
    UpdateLengthLocked();
  }
  EndTasks(std::move(ended));
  return next;
}

Batcher::Batcher(BatcherOptions options, BatchLayout layout,
                 BatchRunner& runner, const std::vector<RunDemand>& devices,
                 Clock& clock, MetricSource& metrics)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(layout),
                                   runner, devices, clock, metrics)) {
  impl_->StartThreads();
}

Batcher::~Batcher() { Stop(impl_->clock.Now()); }

absl::Status Batcher::Enqueue(std::unique_ptr<InferTask>& task) {
  return impl_->Enqueue(task);
}

void Batcher::SweepCancelled() { impl_->SweepCancelled(); }

absl::Status Batcher::RunOnDeviceThread(int thread,
                                        std::function<void()> work) {
  return impl_->RunOnDeviceThread(thread, std::move(work));
}

void Batcher::Stop(MonotonicTime deadline) { impl_->Stop(deadline); }

void Batcher::ResetCost(int bucket, absl::Duration run) {
  impl_->costs.Reset(bucket, run, impl_->clock.Now());
}

int Batcher::queue_length() const {
  absl::MutexLock lock(&impl_->mu);
  return static_cast<int>(impl_->queue.size());
}

}  // namespace stoker
