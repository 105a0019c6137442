#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"

namespace stoker {

absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("expected CPUs such as 0-3,8, got '", Absl(text), "'"));
  };
  std::vector<int> cpus;
  for (absl::string_view range : absl::StrSplit(Absl(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return wrong();
    const bool single = range.find('-') == range.npos;
    if (!absl::SimpleAtoi(single ? ends.first : ends.second, &last)) {
      return wrong();
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return wrong();
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpuList(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) absl::StrAppend(&text, "-", cpus[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

absl::StatusOr<std::vector<int>> NodeCpus(int node) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/node/node", node, "/cpulist"));
  std::string text;
  if (!std::getline(file, text)) {
    return absl::NotFoundError(absl::StrCat(
        "NUMA node ", node, ": this machine has none of that number"));
  }
  return ParseCpuList(std::string(absl::StripAsciiWhitespace(text)));
}

absl::Status PinThread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "CPUs ", CpuList(cpus), ": expected some of ", CpuList(UsableCpus())));
}

}  // namespace stoker
