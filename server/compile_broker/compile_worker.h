// The compile worker over all of its runs, as the supervisor sees it: there is
// none, one is starting, or one is ready. Knows when it may be started again,
// how long a start and idling may take, and what the last one said. Knows no
// jobs. Private to this room.
//
// Belongs to the supervisor thread, which must live as long as the worker
// should; what the worker says arrives in the inbox.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "compile_broker/compile_broker.h"
#include "compile_broker/compile_metrics.h"
#include "compile_broker/compile_worker_process.h"
#include "compile_broker/supervisor_inbox.h"
#include "compile_broker/worker_protocol.h"

namespace stoker {

class CompileWorker {
 public:
  // Between a loss and the next start; doubled with each loss in a row.
  static constexpr absl::Duration kMinBackoff = absl::Seconds(1);
  static constexpr absl::Duration kMaxBackoff = absl::Minutes(1);

  // All outlive this object but `scratch_folder`.
  CompileWorker(const CompileWorkerOptions& options, std::string scratch_folder,
                Clock& clock, CompileMetrics& metrics, SupervisorInbox& inbox);

  bool none() const { return state_ == State::kNone; }
  bool starting() const { return state_ == State::kStarting; }
  bool ready() const { return state_ == State::kReady; }
  // It is none, and may not be started yet.
  bool InBackoff() const;

  // When there is none. NOT_FOUND when there is no such program, which waiting
  // won't change; every other error is a failed start.
  absl::Status Start();
  void OnReady(const WorkerReply& reply);
  // It has answered a job: it is not the worker that is at fault.
  void OnAnswer() { losses_ = 0; }
  // Whether the event is about the run that is on; those of earlier ones are
  // stale.
  bool IsOfThisRun(const WorkerEvent& event) const;
  // These two only while there is one.
  void Send(std::string_view line) { process_->Send(line); }
  pid_t pid() const { return process_->pid(); }

  // How many in a row, and how the last of them went.
  int failed_starts() const { return failed_starts_; }
  const absl::Status& start_failure() const { return start_failure_; }

  void NoteIdleness(bool has_nothing_to_do);
  bool StartIsOverdue() const;
  // A polite end, which is no loss.
  void LetGoIfIdle();
  // Infinite when time alone changes nothing.
  MonotonicTime NextDeadline() const;
  // When it may be started.
  MonotonicTime next_start() const { return next_start_; }

  // Ends it, or what is left of it; the next start waits. UNAVAILABLE with
  // `what` and the worker's last words. One that was starting counts as a
  // failed start.
  absl::Status Lose(std::string_view what);
  // Without ado, at the end.
  void Drop();

 private:
  enum class State { kNone, kStarting, kReady };

  void NoteLoss();
  void NoteFailedStart(const absl::Status& failure);
  std::string WithLastWords(std::string_view text) const;

  const CompileWorkerOptions& options_;
  const std::string scratch_folder_;
  Clock& clock_;
  CompileMetrics& metrics_;
  SupervisorInbox& inbox_;

  std::unique_ptr<CompileWorkerProcess> process_;
  State state_ = State::kNone;
  int run_ = 0;
  MonotonicTime start_deadline_;
  MonotonicTime idle_since_ =
      MonotonicTime::InfiniteFuture();  // future: not idle
  MonotonicTime next_start_ = MonotonicTime::InfinitePast();
  int losses_ = 0;         // since the last job that it answered
  int failed_starts_ = 0;  // since the last one that became ready
  absl::Status start_failure_;
};

}  // namespace stoker
