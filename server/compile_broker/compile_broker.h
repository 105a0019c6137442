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
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "compile_broker/compiler.h"
#include "kernel_cache/entry_store.h"
#include "metrics/metrics.h"

namespace stoker {

struct CompileWorkerOptions {
  std::vector<std::string> argv;  // empty: there is no compiler on this host
  std::string
      working_folder;  // of the worker: where the `compiler` package is found
  int parallel_jobs = 1;
  absl::Duration job_timeout = absl::Minutes(15);
  int64_t job_memory_bytes = int64_t{8} << 30;
  bool allow_passes = false;  // which are code of a model's author
  absl::Duration start_timeout = absl::Minutes(3);
  absl::Duration idle_timeout = absl::Minutes(2);  // then the worker is let go
};

class CompileBroker final : public Compiler {
 public:
  CompileBroker(const CompileWorkerOptions& options, EntryStore& entries,
                Clock& clock, MetricRegistry& metrics);
  // Kills the worker, abandons staged work, answers what is left with
  // CANCELLED.
  ~CompileBroker() override;

  // As Compiler says. While another daemon compiles the key, waits for its
  // entry; a key that failed twice is parked: it fails at once with the stored
  // reason.
  void Submit(CompileRequest request, Progress progress, Done done,
              std::stop_token stop) override;
  // Starts the worker, unless it runs or has to wait after a failure.
  void Expect() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
