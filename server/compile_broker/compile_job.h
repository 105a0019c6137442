// One key on its way to an entry, with everybody who waits for it. Private to
// this room. Belongs to the supervisor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

  explicit CompileJob(Submission submission);

  // Tells everybody who waits, and whoever joins later.
  void SetPhase(std::string_view name);
  void Join(Submission submission);
  // Calls every `done`.
  void Answer(const absl::StatusOr<CacheEntry>& result);
  // "minilm:1 [batch=8,tokens=32] 0123456789ab", for logs.
  std::string Name() const;

  struct Waiter {
    CompileBroker::Progress progress;
    CompileBroker::Done done;
  };

  const CompileRequest request;
  std::vector<Waiter> waiters;
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
