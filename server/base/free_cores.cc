#include "base/free_cores.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/cpus.h"

namespace stoker {
namespace {

constexpr int kReadingsPerQuota = 10;  // it takes as long as all the rest
// Of a core: what the server's own clients and the kernel may use of one
// without a thread being taken off it.
constexpr double kShared = 0.3;

// "cpu7 user nice system idle iowait ...": the ticks of the last two and of
// nice; nullopt of another line.
std::optional<std::pair<int, int64_t>> ReadLine(const std::string& line) {
  std::istringstream words(line);
  std::string name;
  int64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0;
  words >> name >> user >> nice >> system >> idle >> iowait;
  int cpu = 0;
  if (words.fail() || !absl::StartsWith(name, "cpu") ||
      !absl::SimpleAtoi(name.substr(3), &cpu)) {
    return std::nullopt;
  }
  return std::pair(cpu, nice + idle + iowait);
}

// Cores that were to be had between the two; nullopt where they tell nothing.
std::optional<double> Between(const std::optional<CpuTimes>& before,
                              const std::optional<CpuTimes>& after,
                              absl::Duration passed) {
  if (!before.has_value() || !after.has_value()) return std::nullopt;
  if (before->cpus != after->cpus || passed <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  const double used =
      after->to_be_had - before->to_be_had + after->own - before->own;
  return std::clamp(used / absl::ToDoubleSeconds(passed), 0.0,
                    static_cast<double>(after->cpus.size()));
}

double Median(std::array<double, FreeCores::kReadings> readings) {
  std::nth_element(readings.begin(), readings.begin() + readings.size() / 2,
                   readings.end());
  return readings[readings.size() / 2];
}

}  // namespace

std::optional<CpuTimes> ReadCpuTimes(const std::string& root) {
  // As of now: a control group's set of CPUs may change.
  CpuTimes times{.cpus = UsableCpus()};
  std::ifstream file(root + "proc/stat");
  size_t found = 0;
  std::string line;
  // "cpu" of all, one of each, then much else.
  while (std::getline(file, line) && absl::StartsWith(line, "cpu")) {
    const auto read = ReadLine(line);
    if (!read.has_value() ||
        !std::binary_search(times.cpus.begin(), times.cpus.end(),
                            read->first)) {
      continue;
    }
    ++found;
    times.to_be_had += static_cast<double>(read->second) /
                       static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  if (found == 0 || found < times.cpus.size()) return std::nullopt;
  timespec own{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0) return std::nullopt;
  times.own = absl::ToDoubleSeconds(absl::DurationFromTimespec(own));
  return times;
}

FreeCores::FreeCores(int cores, Read read, Quota quota, Clock& clock)
    : cores_(cores),
      read_(std::move(read)),
      quota_(std::move(quota)),
      clock_(clock),
      free_(cores_),
      thread_("free-cores", [this] { Loop(); }) {}

FreeCores::~FreeCores() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.Join();
}

int FreeCores::Share(int threads) const {
  if (threads <= 1) return 1;
  const double have = threads * now() / cores_ + kShared;
  return std::clamp(static_cast<int>(have), 1, threads);
}

void FreeCores::Loop() {
  std::array<double, kReadings> readings{};
  readings.fill(cores_);
  std::optional<CpuTimes> before = read_();
  MonotonicTime last = clock_.Now();
  double quota = cores_;
  for (size_t i = 0;; ++i) {
    {
      absl::MutexLock lock(&mu_);
      if (clock_.AwaitWithDeadline(&mu_, absl::Condition(&stopping_),
                                   last + kPeriod)) {
        return;
      }
    }
    std::optional<CpuTimes> after = read_();
    const MonotonicTime now = clock_.Now();
    if (i % kReadingsPerQuota == 0) {
      // Threads leave cores unused while they wait for each other: two are
      // faster with a quota of 1.5 than one, although they are throttled.
      quota = std::max(1.0, std::round(quota_()));
    }
    if (const auto had = Between(before, after, now - last)) {
      readings[i % kReadings] = *had;
      free_.store(std::min({Median(readings), quota, cores_}),
                  std::memory_order_relaxed);
    }
    before = std::move(after);
    last = now;
  }
}

}  // namespace stoker
