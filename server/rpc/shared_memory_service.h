// The six methods about clients' shared memory. CUDA's answer as on a host
// without a GPU: there are no such regions, and none can be registered.
#pragma once

#include "rpc/method_table.h"
#include "rpc/shared_memory.h"

namespace stoker {

// `regions` outlive the methods' calls; null: all methods are refused.
void AddSharedMemoryMethods(MethodTable& methods, SharedMemoryRegions* regions);

}  // namespace stoker
