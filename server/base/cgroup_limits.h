// How much memory and how many cores this process may use: what its control
// groups (version 1 or 2) leave it. Thread-safe. `root`: where /proc and /sys
// are; tests have their own.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

// The machine's memory or the least limit of the groups, in bytes.
int64_t MemoryLimit(const std::string& root = "/");

// Cores, in parts of one where the quota says so; infinity without a limit.
// A container's CPU limit is such a quota and leaves the affinity as it is.
double CpuLimit(const std::string& root = "/");

// The CPUs of the affinity, or as many as the quota pays for; at least 1.
int UsableCores();

}  // namespace stoker
