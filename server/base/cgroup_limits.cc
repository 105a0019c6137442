#include "base/cgroup_limits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/cpus.h"

namespace stoker {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
constexpr double kNoQuota = std::numeric_limits<double>::infinity();

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

// Of memory.stat: "inactive_file 4096".
int64_t InactiveFile(const std::string& path, std::string_view field) {
  std::ifstream file(path);
  std::string name;
  for (int64_t bytes = 0; file >> name >> bytes;) {
    if (name == field) return bytes;
  }
  return 0;
}

// What the two versions call it.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* inactive_file;  // in memory.stat
};
constexpr MemoryFiles kVersion2 = {"/memory.max", "/memory.current",
                                   "inactive_file"};
constexpr MemoryFiles kVersion1 = {
    "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

// "200000 100000", or "max 100000": microseconds of each period.
double CpuMax(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return kNoQuota;
  return quota / period;
}

double CfsQuota(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 ||
      period <= 0) {
    return kNoQuota;
  }
  return quota / period;
}

// Of the group and of all that hold it: each may set a limit of its own.
// `limit_of` reads a group's folder.
template <typename Read>
auto Least(const std::string& mount, std::string group, Read limit_of) {
  auto least = limit_of(mount);
  while (group.size() > 1) {
    least = std::min(least, limit_of(mount + group));
    group.resize(group.rfind('/'));
  }
  return least;
}

int64_t LeastLimit(const std::string& mount, const std::string& group,
                   const MemoryFiles& files) {
  return Least(mount, group, [&files](const std::string& folder) {
    return Limit(folder + files.limit);
  });
}

// One with less left below its limit comes first.
struct Headroom : GroupMemory {
  bool operator<(const Headroom& other) const {
    return limit - used < other.limit - other.used;
  }
};

Headroom LeastHeadroom(const std::string& mount, const std::string& group,
                       const MemoryFiles& files) {
  return Least(mount, group, [&files](const std::string& folder) {
    Headroom memory;
    memory.limit = Limit(folder + files.limit);
    if (memory.limit == kNone) return memory;
    const int64_t used = Limit(folder + files.used);
    if (used == kNone) return memory;
    memory.used =
        used - InactiveFile(folder + "/memory.stat", files.inactive_file);
    return memory;
  });
}

// Calls `with(controllers, group)` for each line of /proc/self/cgroup:
// "4:memory:/group" in version 1, "0::/group" in version 2.
template <typename With>
void ForEachGroup(const std::string& root, With with) {
  std::ifstream groups(root + "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[0] == "0" || !parts[1].empty()) with(parts[1], parts[2]);
  }
}

// Those that limit memory, with where they are mounted and what their files are
// called.
template <typename With>
void ForEachMemoryGroup(const std::string& root, With with) {
  const std::string mount = root + "sys/fs/cgroup";
  ForEachGroup(root,
               [&](const std::string& controllers, const std::string& group) {
                 if (controllers.empty()) with(mount, group, kVersion2);
                 if (controllers == "memory")
                   with(mount + "/memory", group, kVersion1);
               });
}

}  // namespace

int64_t MemoryLimit(const std::string& root) {
  int64_t least = MachineMemory(root);
  ForEachMemoryGroup(root,
                     [&](const std::string& mount, const std::string& group,
                         const MemoryFiles& files) {
                       least = std::min(least, LeastLimit(mount, group, files));
                     });
  return least;
}

std::optional<GroupMemory> MemoryOfGroup(const std::string& root) {
  Headroom least;
  least.limit = kNone;
  ForEachMemoryGroup(
      root, [&](const std::string& mount, const std::string& group,
                const MemoryFiles& files) {
        least = std::min(least, LeastHeadroom(mount, group, files));
      });
  // Version 1 has a number for "none", larger than any machine.
  if (least.limit > MachineMemory(root)) return std::nullopt;
  return least;
}

double CpuLimit(const std::string& root) {
  double least = kNoQuota;
  const std::string mount = root + "sys/fs/cgroup";
  ForEachGroup(
      root, [&](const std::string& controllers, const std::string& group) {
        if (controllers.empty()) {
          least = std::min(least, Least(mount, group, CpuMax));
        } else if (controllers == "cpu" || controllers == "cpu,cpuacct") {
          least = std::min(least, Least(mount + "/cpu", group, CfsQuota));
        }
      });
  return least;
}

int UsableCores() {
  const auto affinity = static_cast<double>(UsableCpus().size());
  return static_cast<int>(
      std::max(1.0, std::min(affinity, std::ceil(CpuLimit()))));
}

}  // namespace stoker
