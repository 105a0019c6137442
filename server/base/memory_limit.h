// How much memory this process may use. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

// The machine's memory or the least limit of the process's control groups
// (version 1 or 2), in bytes. `root`: where /proc and /sys are; tests have
// their own.
int64_t MemoryLimit(const std::string& root = "/");

}  // namespace stoker
