#include "main/repository_wait.h"

#include <time.h>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"

namespace stoker {
namespace {

// How often a repository that isn't there yet is looked for.
constexpr timespec kRepositoryInterval = {.tv_sec = 0, .tv_nsec = 100'000'000};

}  // namespace

absl::StatusOr<int> AwaitRepository(const ModelRepository& repository,
                                    absl::Duration wait,
                                    const sigset_t& signals, Clock& clock) {
  absl::Status status = repository.CheckRoot();
  if (status.ok()) return 0;
  const MonotonicTime deadline = clock.Now() + wait;
  log::Info("{}; waiting for it, {} at most", Std(status.message()),
            absl::FormatDuration(wait));
  while (clock.Now() < deadline) {
    const int signal = sigtimedwait(&signals, nullptr, &kRepositoryInterval);
    if (signal > 0) return signal;
    status = repository.CheckRoot();
    if (status.ok()) return 0;
  }
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; waited for ",
                                   absl::FormatDuration(wait)));
}

}  // namespace stoker
