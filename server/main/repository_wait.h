// Waiting for a model repository that isn't there yet: a volume may be filled,
// or a link be made, after the launch.
#pragma once

#include <signal.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "repository/model_repository.h"

namespace stoker {

// Blocks until the repository can be read, or for as long as `wait`. Returns 0,
// or the one of `signals` that came first, which the caller has blocked in
// every thread; what is wrong with the repository when the time is over.
absl::StatusOr<int> AwaitRepository(const ModelRepository& repository,
                                    absl::Duration wait,
                                    const sigset_t& signals, Clock& clock);

}  // namespace stoker
