// Turns a missing artifact into a cache entry: one compile per key (over all
// daemons on the cache), a queue, and a supervised Python worker process that
// forks one child per job. The only writer of cache entries.
//
// The protocol with the worker is described in compiler/job/protocol.py.
//
// Thread-safe. Callbacks run on the supervisor thread; they must not block.
// They may call Submit, but not destroy the broker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"

namespace stoker {

struct CompileRequest {
  ArtifactKey key;
  KeyFactors factors;  // written into the manifest
  std::string model;   // "minilm:1", for logs
  std::string bucket;  // "batch=8,tokens=32", for logs
  std::string program_path;
  std::string passes_path;  // empty: none
  std::map<std::string, int64_t>
      sizes;  // graph symbol → size; absent: stays dynamic
  int threads = 1;
  std::string march;           // "x86-64-v4"
  int simdlen = 512;           // bits; 0: scalar code
  std::string device = "cpu";  // or "cuda:0", of those that the worker sees
};

struct CompileWorkerOptions {
  std::vector<std::string> argv;  // empty: there is no compiler on this host
  std::string
      working_folder;  // of the worker: where the `compiler` package is found
  int parallel_jobs = 1;
  absl::Duration job_timeout = absl::Minutes(15);
  int64_t job_memory_bytes = int64_t{8} << 30;
  absl::Duration start_timeout = absl::Minutes(3);
  absl::Duration idle_timeout = absl::Minutes(2);  // then the worker is let go
};

class CompileBroker {
 public:
  using Done = std::function<void(absl::StatusOr<CacheEntry>)>;
  // phase: "wait", "start", "load", "specialise", "lower", "build", "package",
  // "commit".
  using Progress = std::function<void(std::string_view phase)>;

  CompileBroker(const CompileWorkerOptions& options, KernelCache& cache,
                Clock& clock, MetricRegistry& metrics);
  // Kills the worker, abandons staged work, answers what is left with
  // CANCELLED.
  ~CompileBroker();

  // Calls `done` exactly once, never from inside Submit. Requests for one key
  // share one compile. While another daemon compiles the key, waits for its
  // entry. Errors:
  //   UNAVAILABLE          no compiler on this host, the worker won't start, or
  //                        the cache can't be written
  //   DEADLINE_EXCEEDED    job_timeout
  //   RESOURCE_EXHAUSTED   the compile hit its memory limit, or the disk is
  //   full FAILED_PRECONDITION  refused: the generated code can't be made safe
  //   INTERNAL             the compiler failed; the message ends with its last
  //   words
  // A key that failed twice is parked: it fails at once with the stored reason.
  void Submit(CompileRequest request, Progress progress, Done done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
