// How much memory and how many cores this process may use, and what is used:
// what its control groups (version 1 or 2) leave it. Thread-safe. `root`: where
// /proc and /sys are; tests have their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stoker {

// The machine's memory or the least limit of the groups, in bytes.
int64_t MemoryLimit(const std::string& root = "/");

// Of the group that has least left below its limit, where there is one: all of
// its processes, without what the kernel can drop (the working set that
// Kubernetes evicts by).
struct GroupMemory {
  int64_t used = 0;  // bytes
  int64_t limit = 0;
};
std::optional<GroupMemory> MemoryOfGroup(const std::string& root = "/");

// Cores, in parts of one where the quota says so; infinity without a limit.
// A container's CPU limit is such a quota and leaves the affinity as it is.
double CpuLimit(const std::string& root = "/");

// The CPUs of the affinity, or as many as the quota pays for; at least 1.
int UsableCores();

}  // namespace stoker
