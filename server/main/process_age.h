// Time since the kernel started this process: start-up phases are counted from
// there, so that loading the shared libraries is part of them.
#pragma once

#include "absl/time/time.h"

namespace stoker {

absl::Duration ProcessAge();

}  // namespace stoker
