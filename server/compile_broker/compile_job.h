// One key on its way to an entry, with everybody who waits for it. Private to
// this room. Belongs to the supervisor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/monotonic_time.h"
#include "compile_broker/compile_broker.h"
#include "compile_broker/supervisor_inbox.h"

namespace stoker {

struct CompileJob {
  enum class State {
    kQueued,     // waiting for a free place
    kElsewhere,  // another daemon has the key
    kLocked,     // the key is ours, the worker is not ready
    kRunning,    // the worker has it
  };

  // `inbox`, which outlives it, is told when somebody no longer waits.
  CompileJob(Submission submission, SupervisorInbox& inbox);

  // Tells everybody who waits, and whoever joins later.
  void SetPhase(std::string_view name);
  void Join(Submission submission);
  // Answers those who no longer wait; false when nobody is left.
  bool DropLeavers();
  // Calls every `done`.
  void Answer(const absl::StatusOr<CacheEntry>& result);
  // "minilm:1 [batch=8,tokens=32] 0123456789ab", for logs.
  std::string Name() const;

  struct Waiter {
    Waiter(Submission submission, SupervisorInbox& inbox);

    CompileBroker::Progress progress;
    CompileBroker::Done done;
    std::stop_token stop;
    std::stop_callback<std::function<void()>> on_stop;
  };

  SupervisorInbox& inbox;
  const CompileRequest request;
  std::list<Waiter> waiters;
  std::string phase = "wait";
  State state = State::kQueued;

  // kElsewhere.
  MonotonicTime found_locked;
  MonotonicTime next_look;  // when the lock is tried again

  // kLocked and kRunning.
  std::unique_ptr<FileLock> lock;

  // kRunning.
  int64_t id = 0;  // in the protocol; a new one for each try
  std::string staging_folder;
  MonotonicTime sent;
  MonotonicTime deadline;
};

}  // namespace stoker
