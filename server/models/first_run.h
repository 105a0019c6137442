// Runs what never ran on this machine in a child process first: an artifact
// that another machine has made may end the process that runs it (an
// instruction that this processor lacks, a library that differs), as may a
// program's eager form (an operator of somebody's own), and then it is not the
// daemon's.
//
// What has run here is noted in the kernel cache, and known to this object
// where nothing can be written.
//
// Thread-safe. Check blocks; callers take turns.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/subprocess.h"
#include "kernel_cache/entry_store.h"
#include "kernel_cache/fact_store.h"
#include "tensor/tensor.h"

namespace stoker {

class FirstRun {
 public:
  struct Options {
    // Followed by the program's path, the number of threads and the artifacts'
    // folders. The child opens and runs each in turn and writes a line to its
    // descriptor 3 for each that it survived, whether it went well or not.
    // Without folders it does so with the program's eager form, on inputs that
    // it reads from its standard input, a tensor file (tensor/tensor_file.h)
    // whose names are their positions.
    std::vector<std::string> argv;
    std::string machine;  // [a-z0-9]+: what a note is good for
    absl::Duration time_limit = absl::Minutes(2);  // without a word
    // The same for eager, which is one word.
    absl::Duration eager_time_limit = absl::Minutes(10);
  };
  // A program with its weights, whatever they are called.
  struct Program {
    std::string digest;
    std::string weights_digest;
    std::string path;
  };

  // `facts` outlives this object.
  FirstRun(Options options, FactStore& facts);

  // For each entry: OK when it has survived a run here, or does now. INTERNAL
  // with what became of the child when not. OK too when no child can be
  // started: then nothing is known, and the daemon runs it as ever. CANCELLED
  // for those that aren't through when `stop` is requested, which kills the
  // child.
  std::vector<absl::Status> Check(const std::string& program, int threads,
                                  absl::Span<const CacheEntry> entries,
                                  const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same for a program's eager form, on these inputs. RESOURCE_EXHAUSTED
  // when the child was killed from outside, as for memory.
  absl::Status CheckEager(const Program& program, int threads,
                          absl::Span<const Tensor> inputs,
                          const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // In this caller's turn.
  absl::Status RunEagerChild(const Program& program, int threads,
                             absl::Span<const Tensor> inputs,
                             const std::stop_token& stop);
  // Waits for its turn; false when stopped before it came.
  bool TakeTurn(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mu_);
  void EndTurn() ABSL_LOCKS_EXCLUDED(mu_);
  // What becomes of those entries that a child is to try first, by index, in
  // this caller's turn.
  void RunChildren(const std::string& program, int threads,
                   absl::Span<const CacheEntry> entries,
                   const std::stop_token& stop,
                   std::vector<absl::Status>& results);
  // In this caller's turn.
  bool IsKnown(const ArtifactId& artifact) const;
  void Note(const ArtifactId& artifact);

  const Options options_;
  FactStore& facts_;
  std::set<ArtifactId> survived_;  // of whoever has the turn
  absl::Mutex mu_;
  bool busy_ ABSL_GUARDED_BY(mu_) = false;  // it is somebody's turn
};

}  // namespace stoker
