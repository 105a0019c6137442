// What each subject of one caller's JWTs asks for. There is no end of subjects:
// beyond so many the one who hasn't asked for longest is forgotten, and finds a
// whole burst when he comes again. Not while he has requests under way.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "access/caller_load.h"
#include "access/policy.h"
#include "metrics/metrics.h"

namespace stoker {

class SubjectLoads {
 public:
  // About 3 MB.
  static constexpr size_t kMost = 10'000;

  // `forgotten` counts those who made room.
  explicit SubjectLoads(Counter forgotten, size_t most = kMost)
      : forgotten_(forgotten), most_(most) {}

  // Of every one, from now on; what is under way stays counted.
  void Limit(const CallerLimits& limits) ABSL_LOCKS_EXCLUDED(mu_);

  // That of who has that subject, by its hash. He asks now.
  std::shared_ptr<CallerLoad> Of(const TokenHash& subject)
      ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Subject {
    TokenHash hash;
    std::shared_ptr<CallerLoad> load;
  };

  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Counter forgotten_;
  const size_t most_;
  mutable absl::Mutex mu_;
  CallerLimits limits_ ABSL_GUARDED_BY(mu_);
  std::list<Subject> subjects_ ABSL_GUARDED_BY(mu_);  // the last asked last
  absl::flat_hash_map<TokenHash, std::list<Subject>::iterator> places_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
