#include "main/warm_only.h"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text_table.h"
#include "models/model_version.h"

namespace stoker {
namespace {

constexpr int kInterrupted = 3;
constexpr size_t kBarWidth = 24;

bool IsSettled(const BucketStatus& bucket) {
  return bucket.slot.state == BucketState::kCompiled ||
         bucket.slot.state == BucketState::kEager;
}

// Promotion has looked at it: there is an artifact, and a verdict beside it.
bool IsRefused(const BucketStatus& bucket) {
  return bucket.slot.state == BucketState::kEager &&
         (absl::StartsWith(bucket.slot.detail, "profit:") ||
          absl::StartsWith(bucket.slot.detail, "parity:"));
}

bool AllSettled(const ModelManager& manager) {
  const std::vector<VersionStatus> versions = manager.Index();
  const bool over = std::all_of(
      versions.begin(), versions.end(), [](const VersionStatus& version) {
        return version.state == VersionState::kFailed ||
               (version.state == VersionState::kServing &&
                version.reason.empty());
      });
  const std::vector<BucketStatus> buckets = manager.Buckets();
  return over && (!versions.empty() || manager.ServerReady()) &&
         std::all_of(buckets.begin(), buckets.end(), IsSettled);
}

class Progress {
 public:
  Progress(absl::Time start, int fd)
      : start_(start), terminal_(isatty(fd) == 1), fd_(fd) {}
  ~Progress() {
    if (terminal_) dprintf(fd_, "\r\033[K");
  }

  void Show(const ModelManager& manager, absl::Time now) {
    const std::vector<BucketStatus> buckets = manager.Buckets();
    const auto settled = static_cast<size_t>(
        std::count_if(buckets.begin(), buckets.end(), IsSettled));
    std::string doing;
    for (const VersionStatus& version : manager.Index()) {
      if (version.reason.empty()) continue;
      doing = absl::StrCat(version.model, ":", version.version, " ",
                           version.reason);
      break;
    }
    if (terminal_) {
      const std::string line = absl::StrCat(
          Bar(settled, buckets.size()), " ", settled, "/", buckets.size(),
          Left(settled, buckets.size(), now), "  ", doing);
      dprintf(fd_, "\r\033[K%s", line.substr(0, Width()).c_str());
    } else if (settled != shown_) {
      dprintf(fd_, "%6.1f s  %zu of %zu buckets settled\n",
              absl::ToDoubleSeconds(now - start_), settled, buckets.size());
    }
    if (settled != shown_) {
      shown_ = settled;
      last_change_ = now;
    }
  }

 private:
  static std::string Bar(size_t settled, size_t all) {
    const size_t full = all == 0 ? 0 : kBarWidth * settled / all;
    return absl::StrCat("[", std::string(full, '#'),
                        std::string(kBarWidth - full, '.'), "]");
  }
  // From the buckets so far; the first ones teach the compiler's caches, so
  // that it is rather too long.
  std::string Left(size_t settled, size_t all, absl::Time now) const {
    if (settled == 0 || settled == all) return "";
    const absl::Duration each =
        (last_change_ - start_) / static_cast<double>(settled);
    const absl::Duration left = std::max(
        each * static_cast<double>(all - settled) - (now - last_change_),
        absl::Seconds(1));
    return absl::StrFormat(", about %.0f s left", absl::ToDoubleSeconds(left));
  }
  size_t Width() const {
    winsize size{};
    return ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
               ? size.ws_col - 1u
               : 79u;
  }

  const absl::Time start_;
  const bool terminal_;
  const int fd_;
  size_t shown_ = SIZE_MAX;
  absl::Time last_change_ = start_;
};

std::string Outcome(const BucketStatus& bucket) {
  if (bucket.slot.state == BucketState::kCompiled) {
    return absl::StrFormat("compiled, %.2f x eager",
                           bucket.slot.verdict.speedup);
  }
  return bucket.slot.detail.empty() ? "not settled" : bucket.slot.detail;
}

int Summarise(const ModelManager& manager, absl::Duration took) {
  const std::vector<BucketStatus> buckets = manager.Buckets();
  int compiled = 0;
  int refused = 0;
  TextTable table({"MODEL", "BUCKET", "KEY", "OUTCOME"});
  for (const BucketStatus& bucket : buckets) {
    compiled += bucket.slot.state == BucketState::kCompiled ? 1 : 0;
    refused += IsRefused(bucket) ? 1 : 0;
    table.Add({bucket.model, bucket.bucket, bucket.slot.key.substr(0, 12),
               Outcome(bucket)});
  }
  int failed_versions = 0;
  for (const VersionStatus& version : manager.Index()) {
    if (version.state != VersionState::kFailed) continue;
    ++failed_versions;
    table.Add({absl::StrCat(version.model, ":", version.version), "-", "-",
               version.reason});
  }
  std::fputs(table.Text().c_str(), stdout);
  const int failed = static_cast<int>(buckets.size()) - compiled - refused;
  std::printf(
      "\n%d compiled, %d refused on evidence, %d without an artifact, %d "
      "versions failed; %.1f s\n",
      compiled, refused, failed, failed_versions, absl::ToDoubleSeconds(took));
  return !table.empty() && failed == 0 && failed_versions == 0 ? 0 : 1;
}

}  // namespace

int WarmOnly(ModelManager& manager, const sigset_t& signals, Clock& clock) {
  const absl::Time start = clock.Now();
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
  return interrupted ? kInterrupted : exit_code;
}

}  // namespace stoker
