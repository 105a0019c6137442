// stokerd --warm-only: fills the kernel cache and says what came of it, for a
// build step, a job, a layer of an image.
#pragma once

#include <signal.h>

#include "base/clock.h"
#include "models/model_manager.h"

namespace stoker {

// Starts the manager, waits until every bucket of every version is settled, and
// prints a table on stdout. Meanwhile it shows on stderr what is being done:
// one line that changes with an estimate of what is left on a terminal, else a
// line for each change. Returns the exit code:
//   0  every bucket is compiled, or was compiled and refused with evidence
//   1  something could not be compiled or loaded, or there is nothing to warm
//   kWarmInterrupted  one of `signals` came first
inline constexpr int kWarmInterrupted = 3;
int WarmOnly(ModelManager& manager, const sigset_t& signals, Clock& clock);

}  // namespace stoker
