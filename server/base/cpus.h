// CPUs of this machine by their numbers, in the notation of taskset and cpuset:
// "0-3,8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stoker {

// Ascending, each once. INVALID_ARGUMENT for other text, and for an empty one.
absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text);
// The inverse, with ranges.
std::string CpuList(const std::vector<int>& cpus);

// CPUs that the calling thread may use now.
std::vector<int> UsableCpus();
// Those of a NUMA node; NOT_FOUND when the machine has no such node.
absl::StatusOr<std::vector<int>> NodeCpus(int node);

// Confines the calling thread, and the threads that it starts from now on, to
// these CPUs. FAILED_PRECONDITION when none of them is usable.
absl::Status PinThread(const std::vector<int>& cpus);

}  // namespace stoker
