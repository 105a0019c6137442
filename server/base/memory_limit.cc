#include "base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace stoker {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// "MemTotal:       24643552 kB"
int64_t MachineMemory(const std::string& root) {
  std::ifstream file(root + "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() >= 2 && words[0] == "MemTotal:" &&
        absl::SimpleAtoi(words[1], &kib)) {
      return kib * 1024;
    }
  }
  return kNone;
}

// A file with one number, or "max".
int64_t Limit(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  if (!std::getline(file, text) || !absl::SimpleAtoi(text, &bytes) ||
      bytes <= 0) {
    return kNone;
  }
  return bytes;
}

// Of the group and of all that hold it: each may set a limit of its own.
int64_t LeastLimit(const std::string& mount, std::string group,
                   const std::string& file) {
  int64_t least = Limit(mount + "/" + file);
  while (group.size() > 1) {
    least = std::min(least, Limit(mount + group + "/" + file));
    group.resize(group.rfind('/'));
  }
  return least;
}

}  // namespace

int64_t MemoryLimit(const std::string& root) {
  int64_t least = MachineMemory(root);
  std::ifstream groups(root + "proc/self/cgroup");
  // "4:memory:/group" in version 1, "0::/group" in version 2
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[0] == "0" && parts[1].empty()) {
      least = std::min(
          least, LeastLimit(root + "sys/fs/cgroup", parts[2], "memory.max"));
    } else if (parts[1] == "memory") {
      least = std::min(least, LeastLimit(root + "sys/fs/cgroup/memory",
                                         parts[2], "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace stoker
