// A program's eager form in processes of its own: for programs that call
// operators of which it isn't known that no values lead them astray
// (program/known_operators.h). A process opens the program once and runs each
// request in a child that it forks for it, so that one which reads what isn't
// its own, traps or never ends is that request's error and nobody else's.
//
// Thread-safe: each thread that calls Run has a process of its own, which ends
// with the thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "runner/executable.h"

namespace stoker {

class IsolatedEager : public Executable {
 public:
  struct Options {
    // Followed by the program's path. The process reads requests from its
    // standard input and writes replies to its descriptor 3
    // (tensor/run_message.h), one after the other; ABORTED is the reply to a
    // request whose child ended before it had an answer.
    std::vector<std::string> argv;
    absl::Duration time_limit = absl::Minutes(10);  // of a run
  };

  // `lost` counts runs that ended their process. `clock` outlives this object.
  IsolatedEager(Options options, std::string program, Clock& clock,
                Counter lost);
  ~IsolatedEager() override;

  // Besides what a run in this process returns: INTERNAL when the run ended its
  // process or took longer than the limit; RESOURCE_EXHAUSTED when it was
  // killed from outside, as for memory; UNAVAILABLE when no process can be
  // started, or none lives for as long as a run.
  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return false; }
  std::string_view tier() const override { return "eager"; }

 private:
  class Process;

  // Of the calling thread: the one it has, or a new one where that has ended.
  absl::StatusOr<Process*> OwnProcess() ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::string> Ask(const std::string& request);

  const Options options_;
  const std::string program_;
  Clock& clock_;
  Counter lost_;
  absl::Mutex mu_;
  std::map<std::thread::id, std::unique_ptr<Process>> processes_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
