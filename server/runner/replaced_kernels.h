// Puts kernels of the server's own in the place of torch's. Private to this
// room.
#pragma once

#include <torch/library.h>

namespace stoker {

// Calls `replace` with what registers kernels of aten's operators on CPUs, for
// the whole process and for as long as it lives, without torch's warning that
// they are replaced. To be called once for each operator, before its first run,
// by one thread at a time.
void ReplaceCpuKernels(void (*replace)(torch::Library& library));

}  // namespace stoker
