// What other threads want the compile supervisor to know: submissions, the
// worker's replies and its end, and that it is time to stop. Private to this
// room. Thread-safe.
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "compile_broker/compile_broker.h"

namespace stoker {

struct Submission {
  CompileRequest request;
  CompileBroker::Progress progress;  // may be null
  CompileBroker::Done done;
  std::stop_token stop;
};

struct WorkerEvent {
  int worker = 0;      // which start of the worker it comes from
  bool ended = false;  // then `text` says how; else it is a line of a reply
  std::string text;
};

struct News {
  std::vector<Submission> submissions;
  std::vector<WorkerEvent> events;
  bool leavers = false;
  bool expecting = false;
  bool stopping = false;
};

class SupervisorInbox {
 public:
  void Submit(Submission submission);
  void Post(WorkerEvent event);
  // Somebody no longer wants what was submitted: has Wait return.
  void NoteLeaver();
  // A submission is about to come.
  void NoteExpected();
  void Stop();

  // Waits until there is something or `deadline` has passed, and takes all
  // there is. After Stop it returns at once.
  News Wait(Clock& clock, MonotonicTime deadline);

 private:
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  News news_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
