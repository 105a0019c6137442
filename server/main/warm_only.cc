#include "main/warm_only.h"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text_table.h"

namespace stoker {
namespace {

constexpr int kBarWidth = 24;

// Promotion has looked at it, and there is a verdict beside its artifact; or
// the compiler has, and there is a reason beside its key.
bool IsRefused(const BucketStatus& bucket) {
  switch (bucket.slot.fallback) {
    case FallbackReason::kProfit:
    case FallbackReason::kParity:
    case FallbackReason::kRefused:
    case FallbackReason::kDynamicOnly:
    case FallbackReason::kDynamicUntried:
    case FallbackReason::kDynamicTie:
      return true;
    default:
      return false;
  }
}

// What a server leaves for quiet hours included: the cache is for servers that
// have none.
bool AllSettled(const ModelManager& manager) {
  const std::vector<VersionReport> versions = manager.Report();
  const bool over = std::all_of(
      versions.begin(), versions.end(), [](const VersionReport& version) {
        return version.status.state == VersionState::kFailed ||
               (version.status.state == VersionState::kServing &&
                version.status.reason.empty() &&
                version.warmup.settled == version.warmup.total &&
                version.improved);
      });
  return over && (!versions.empty() || manager.ServerReady());
}

class Progress {
 public:
  Progress(MonotonicTime start, int fd)
      : start_(start), terminal_(isatty(fd) == 1), fd_(fd) {}
  ~Progress() {
    if (terminal_) dprintf(fd_, "\r\033[K");
  }

  void Show(const ModelManager& manager, MonotonicTime now) {
    int settled = 0;
    int all = 0;
    std::string doing;
    std::optional<absl::Duration> left;  // versions warm up side by side
    for (const VersionReport& report : manager.Report()) {
      const VersionStatus& version = report.status;
      settled += report.warmup.settled;
      all += report.warmup.total;
      left = std::max(left, report.warmup.left);
      if (!doing.empty() || version.reason.empty()) continue;
      doing = absl::StrCat(version.model, ":", version.version, " ",
                           version.reason);
    }
    if (terminal_) {
      const std::string line = absl::StrCat(
          Bar(settled, all), " ", settled, "/", all,
          left.has_value() ? absl::StrFormat(", about %.0f s left",
                                             absl::ToDoubleSeconds(*left))
                           : "",
          "  ", doing);
      dprintf(fd_, "\r\033[K%s", line.substr(0, Width()).c_str());
    } else if (settled != shown_) {
      dprintf(fd_, "%6.1f s  %d of %d buckets settled\n",
              absl::ToDoubleSeconds(now - start_), settled, all);
    }
    shown_ = settled;
  }

 private:
  static std::string Bar(int settled, int all) {
    const auto full =
        static_cast<size_t>(all == 0 ? 0 : kBarWidth * settled / all);
    return absl::StrCat("[", std::string(full, '#'),
                        std::string(static_cast<size_t>(kBarWidth) - full, '.'),
                        "]");
  }
  size_t Width() const {
    winsize size{};
    return ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
               ? size.ws_col - 1u
               : 79u;
  }

  const MonotonicTime start_;
  const bool terminal_;
  const int fd_;
  int shown_ = -1;
};

std::string Outcome(const BucketStatus& bucket) {
  if (bucket.slot.state == BucketState::kCompiled) {
    return absl::StrFormat("compiled, %.2f x eager",
                           bucket.slot.verdict.profit.speedup);
  }
  return bucket.slot.detail.empty() ? "not settled" : bucket.slot.detail;
}

int Summarise(const ModelManager& manager, absl::Duration took) {
  int compiled = 0;
  int refused = 0;
  int without = 0;
  int failed_versions = 0;
  TextTable table({"MODEL", "BUCKET", "KEY", "OUTCOME"});
  for (const VersionReport& version : manager.Report()) {
    for (const BucketStatus& bucket : version.buckets) {
      if (bucket.slot.state == BucketState::kCompiled) {
        ++compiled;
      } else if (IsRefused(bucket)) {
        ++refused;
      } else {
        ++without;
      }
      table.Add({bucket.model, bucket.bucket, bucket.slot.key.substr(0, 12),
                 Outcome(bucket)});
    }
    if (version.status.state != VersionState::kFailed) continue;
    ++failed_versions;
    table.Add({absl::StrCat(version.status.model, ":", version.status.version),
               "-", "-", version.status.reason});
  }
  std::fputs(table.Text().c_str(), stdout);
  std::printf(
      "\n%d compiled, %d refused on evidence, %d without an artifact, %d "
      "versions failed; %.1f s\n",
      compiled, refused, without, failed_versions, absl::ToDoubleSeconds(took));
  return !table.empty() && without == 0 && failed_versions == 0 ? 0 : 1;
}

}  // namespace

int WarmOnly(ModelManager& manager, const sigset_t& signals, Clock& clock) {
  const MonotonicTime start = clock.Now();
  manager.Start();
  bool interrupted = false;
  {
    Progress progress(start, STDERR_FILENO);
    const timespec interval = {.tv_sec = 0, .tv_nsec = 100'000'000};
    while (!interrupted && !AllSettled(manager)) {
      progress.Show(manager, clock.Now());
      interrupted = sigtimedwait(&signals, nullptr, &interval) > 0;
    }
    progress.Show(manager, clock.Now());
  }
  const int exit_code = Summarise(manager, clock.Now() - start);
  return interrupted ? kWarmInterrupted : exit_code;
}

}  // namespace stoker
