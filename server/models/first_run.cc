#include "models/first_run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

// The child reaches what this process has verified through its descriptors.
std::string AsSeenByAChild(const std::string& path) {
  return absl::StrReplaceAll(
      path, {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
}

}  // namespace

FirstRun::FirstRun(Options options, KernelCache& cache)
    : options_(std::move(options)), cache_(cache) {}

std::string FirstRun::NoteName() const {
  return absl::StrCat(Absl(KernelCache::kRanNotePrefix), options_.machine);
}

bool FirstRun::IsKnownLocked(const ArtifactKey& key) {
  return survived_.contains(key) ||
         cache_.ReadNote(key, NoteName()).has_value();
}

void FirstRun::NoteLocked(const ArtifactKey& key) {
  survived_.insert(key);
  // Without the note the next start tries again.
  cache_.WriteNote(key, NoteName(), "").IgnoreError();
}

std::pair<size_t, std::string> FirstRun::TryIn(Subprocess& child) const {
  child.CloseStdin();
  size_t survived = 0;
  std::array<pollfd, 2> watched = {
      {{child.reply_fd(), POLLIN, 0}, {child.stderr_fd(), POLLIN, 0}}};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const int limit =
        static_cast<int>(absl::ToInt64Milliseconds(options_.time_limit));
    const int ready = poll(watched.data(), watched.size(), limit);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      child.Kill();
      child.Wait();
      return {survived,
              absl::StrCat("took longer than ",
                           absl::FormatDuration(options_.time_limit))};
    }
    for (pollfd& one : watched) {
      if (one.fd < 0 || one.revents == 0) continue;
      std::array<char, 512> bytes;
      const ssize_t got = read(one.fd, bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got > 0 && &one == &watched[0]) {
        survived += static_cast<size_t>(
            std::count(bytes.begin(), bytes.begin() + got, '\n'));
      }
      if (got <= 0) one.fd = -1;  // its end; poll passes over it
    }
  }
  return {survived, child.Wait()};
}

std::vector<absl::Status> FirstRun::Check(
    const std::string& program, int threads,
    absl::Span<const CacheEntry> entries) {
  std::vector<absl::Status> results(entries.size(), absl::OkStatus());
  const absl::MutexLock lock(&mu_);
  std::vector<size_t> left;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!IsKnownLocked(entries[i].key)) left.push_back(i);
  }
  while (!left.empty()) {
    Subprocess::Options child_options{.argv = options_.argv};
    child_options.argv.push_back(program);
    child_options.argv.push_back(absl::StrCat(threads));
    for (const size_t i : left) {
      child_options.argv.push_back(AsSeenByAChild(entries[i].verified->path()));
    }
    auto child = Subprocess::Start(child_options);
    if (!child.ok()) {
      spdlog::warn("artifacts are not tried in a child process first: {}",
                   std::string(child.status().message()));
      return results;
    }
    auto [survived, end] = TryIn(**child);
    survived = std::min(survived, left.size());
    for (size_t i = 0; i < survived; ++i) NoteLocked(entries[left[i]].key);
    left.erase(left.begin(),
               left.begin() + static_cast<std::ptrdiff_t>(survived));
    if (left.empty()) break;
    results[left[0]] = absl::InternalError(
        absl::StrCat("its first run, in a child process: ", end));
    left.erase(left.begin());
  }
  return results;
}

}  // namespace stoker
