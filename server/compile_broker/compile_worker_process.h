// One run of the compile worker: its process, the pipes, and the thread that
// serves them. Knows lines, not jobs. Private to this room.
//
// Create and destroy it on one thread that outlives it (the process dies with
// its creator); Send and LastWords may be called from any thread. The callbacks
// run on the pipes' thread, without locks, and no longer once the destructor
// has returned.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/process_pipes.h"
#include "base/subprocess.h"
#include "base/thread.h"
#include "compile_broker/log_tail.h"

namespace stoker {

class CompileWorkerProcess {
 public:
  // A longer line is no reply of ours, and ends the worker.
  static constexpr size_t kMaxReplyBytes = 1 << 20;
  // How long a worker that is let go may take to end its jobs by itself before
  // it is killed.
  static constexpr absl::Duration kFarewell = absl::Seconds(1);

  struct Callbacks {
    std::function<void(std::string line)> on_reply;  // without its newline
    // Once, after the last reply, unless the destructor came first. `how`:
    // "exit status 3", "killed by signal 9 (Killed)", ...
    std::function<void(std::string how)> on_end;
  };

  // Errors as Subprocess::Start.
  static absl::StatusOr<std::unique_ptr<CompileWorkerProcess>> Start(
      const Subprocess::Options& options, Callbacks callbacks);
  // Closes the worker's stdin, so that it can end its jobs, which live in
  // process groups of their own; kills it when that takes longer than
  // kFarewell.
  ~CompileWorkerProcess();

  // Queues a line (with its newline). Never blocks; lost when the worker ends.
  void Send(std::string_view line);
  // The end of the worker's log, at most `max_bytes`.
  std::string LastWords(size_t max_bytes) const;
  pid_t pid() const { return process_->pid(); }

 private:
  CompileWorkerProcess(std::unique_ptr<Subprocess> process, int wake_fd,
                       int pid_fd, Callbacks callbacks);

  // The pipes' thread.
  void Serve();
  bool WaitForPipes();  // false: the end was reached
  void HearOwner();
  void KillSoon();
  void ReadReplies(std::string_view piece);
  void ReadLog(std::string_view piece);
  void LogLines(std::string_view bytes);
  void Finish();
  bool LetGo() const;

  // Constant after construction.
  const std::unique_ptr<Subprocess> process_;
  const int wake_fd_;  // an eventfd
  const int pid_fd_;   // readable when the process has ended; -1: unknown
  const Callbacks callbacks_;

  // The pipes' thread only.
  ProcessPipes pipes_;
  bool process_ended_ = false;
  std::string fault_;         // why the worker was killed
  std::string reply_so_far_;  // of a line that is not complete
  std::string log_so_far_;
  MonotonicTime kill_at_ = MonotonicTime::InfiniteFuture();

  mutable absl::Mutex mu_;
  // What `pipes_` has not been given yet.
  std::string outbox_ ABSL_GUARDED_BY(mu_);
  LogTail tail_ ABSL_GUARDED_BY(mu_);
  bool let_go_ ABSL_GUARDED_BY(mu_) = false;

  Thread thread_;  // last: starts when all else exists
};

}  // namespace stoker
