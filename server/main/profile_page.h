// The page /profile?seconds=N: what the server did from now on, for as long, as
// a timeline. One at a time.
//
// Thread-safe, but for the end.
#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/thread.h"
#include "status/page.h"
#include "telemetry/telemetry.h"
#include "telemetry/timeline_recorder.h"

namespace stoker {

class ProfilePage {
 public:
  static constexpr absl::Duration kMost = absl::Seconds(60);

  explicit ProfilePage(Clock& clock) : clock_(clock) {}
  ~ProfilePage() { Stop(); }

  // Both outlive the pages.
  void AddTo(LatePages& pages, Telemetry& telemetry);
  // What is under way is answered with what there is; from then on there are
  // none.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Done = std::function<void(Page)>;

  void Begin(Telemetry& telemetry, const std::string& query, const Done& done)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Null: it is under way; else why not.
  const char* Start(TimelineRecorder& recorder, absl::Duration how_long,
                    const Done& done) ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool busy_ ABSL_GUARDED_BY(mu_) = false;  // one is under way
  Thread thread_ ABSL_GUARDED_BY(mu_);      // of the last one
};

}  // namespace stoker
