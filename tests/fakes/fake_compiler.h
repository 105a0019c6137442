// A Compiler that does what a test says, on a thread of its own.
//
//   FakeCompiler compiler([&](const CompileRequest& request) {
//     return CommitArtifact(cache, request.key);
//   });
//   compiler.BlockUntilAsked(1);
//
// A script that returns nullopt leaves the compile running: it is answered with
// CANCELLED when the compiler goes.
//
// Thread-safe; the script runs outside of any lock.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/thread.h"
#include "compile_broker/compiler.h"
#include "kernel_cache/kernel_cache.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {

// Puts an artifact into the cache, as the compile worker does.
inline absl::StatusOr<CacheEntry> CommitArtifact(
    KernelCache& cache, const ArtifactKey& key,
    const ArtifactFiles& files = SmallArtifact()) {
  const absl::StatusOr<std::string> staged =
      cache.entries().NewStagingFolder(key);
  if (!staged.ok()) return staged.status();
  StageArtifact(*staged, key, files);
  return cache.entries().Commit(key, *staged);
}

class FakeCompiler : public Compiler {
 public:
  using Script = std::function<std::optional<absl::StatusOr<CacheEntry>>(
      const CompileRequest&)>;

  explicit FakeCompiler(Script script)
      : script_(std::move(script)), thread_("compiler", [this] { Work(); }) {}
  ~FakeCompiler() override {
    {
      const absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.Join();
  }

  void Submit(CompileRequest request, Progress progress, Done done,
              std::stop_token /*stop*/) override ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    asked_.push_back(request.bucket);
    jobs_.push_back({std::move(request), std::move(progress), std::move(done)});
  }

  void Expect() override { expected_ = true; }
  bool expected() const { return expected_; }

  // Names of the buckets, in the order in which they were asked for.
  std::vector<std::string> asked() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return asked_;
  }
  void BlockUntilAsked(size_t compiles) const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    const auto asked = [this, compiles] {
      mu_.AssertReaderHeld();
      return asked_.size() >= compiles;
    };
    mu_.Await(absl::Condition(&asked));
  }

 private:
  struct Job {
    CompileRequest request;
    Progress progress;
    Done done;
  };

  void Work() {
    std::vector<Job> unanswered;
    for (std::optional<Job> job = Next(); job; job = Next()) {
      job->progress("build");
      if (auto answer = script_(job->request)) {
        job->done(*std::move(answer));
      } else {
        unanswered.push_back(*std::move(job));
      }
    }
    for (const Job& job : unanswered) job.done(absl::CancelledError("gone"));
  }
  std::optional<Job> Next() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    const auto awake = [this] {
      mu_.AssertReaderHeld();
      return stopping_ || !jobs_.empty();
    };
    mu_.Await(absl::Condition(&awake));
    if (jobs_.empty()) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  const Script script_;
  std::atomic<bool> expected_ = false;
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mu_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mu_);
  Thread thread_;  // last
};

}  // namespace stoker
