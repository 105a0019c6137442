// The supervisor thread's mind: which key is compiled next, who owns it, and
// what becomes of a failure (compile_worker.h is the worker's). Every method
// runs on that one thread, so nothing here is locked; other threads reach it
// through the inbox. Private to this room.
//
// A job's way: kQueued → (kElsewhere ⇄) → kLocked → kRunning → answered. The
// lock on the key is taken before the worker is started, so that a host whose
// keys are all being compiled by its neighbours starts none, and is given back
// whenever the worker fails to start.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "compile_broker/compile_broker.h"
#include "compile_broker/compile_job.h"
#include "compile_broker/compile_metrics.h"
#include "compile_broker/compile_queue.h"
#include "compile_broker/compile_worker.h"
#include "compile_broker/failure_ledger.h"
#include "compile_broker/supervisor_inbox.h"
#include "compile_broker/worker_protocol.h"

namespace stoker {

class CompileSupervisor {
 public:
  // The worker has its own limit of job_timeout; this much later it counts as
  // stuck and is killed.
  static constexpr absl::Duration kTimeoutGrace = absl::Seconds(30);
  // How often the lock of a key that another daemon compiles is tried.
  static constexpr absl::Duration kLookInterval = absl::Seconds(1);
  // After so many starts in a row that failed, queued jobs are answered instead
  // of being kept for the next try.
  static constexpr int kMaxFailedStarts = 3;

  CompileSupervisor(const CompileWorkerOptions& options, EntryStore& entries,
                    Clock& clock, MetricRegistry& metrics,
                    SupervisorInbox& inbox);

  // Until the inbox is stopped; then answers everything that is left.
  void Run();

 private:
  // What comes in.
  void Accept(Submission submission);
  void Handle(const WorkerEvent& event);
  void OnReply(const WorkerReply& reply);
  void DropUnwanted();
  void OnDone(CompileJob& job, const WorkerReply& reply);
  void OnFailed(CompileJob& job, const WorkerReply& reply);

  // What time brings.
  void CheckDeadlines();
  void OnStuckWorker();
  MonotonicTime NextDeadline() const;

  // Queue.
  void Dispatch();
  void Acquire(CompileJob& job);
  void Send(CompileJob& job);
  bool IsFull() const;  // every place is taken
  // Lock and staged files.
  void GiveUpClaim(CompileJob& job);
  // Back to the queue, its place kept.
  void Requeue(CompileJob& job);
  // Ends the job; `job` is gone afterwards.
  void Answer(CompileJob& job, const absl::StatusOr<CacheEntry>& result);
  // The same for a failure that is the key's own: counted towards parking.
  void Fail(CompileJob& job, const absl::Status& failure);

  // Worker.
  void StartWorker();
  void PrepareWorker();
  void OnWorkerLost(std::string_view how);
  void OnFailedStart();
  void RetryOrFail(CompileJob& job, const absl::Status& failure);

  void Shutdown(News news);

  const CompileWorkerOptions options_;
  EntryStore& entries_;
  Clock& clock_;
  SupervisorInbox& inbox_;
  CompileMetrics metrics_;
  CompileWorker worker_;

  CompileQueue queue_;
  FailureLedger failures_;
  int64_t next_id_ = 1;
};

}  // namespace stoker
