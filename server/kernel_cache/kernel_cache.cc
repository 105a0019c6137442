#include "kernel_cache/kernel_cache.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/status_macros.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/staging_area.h"
#include "metrics/catalog.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

using Result = EntryCheck::Result;

// Damaged entries that are kept per key: enough to see a pattern, too few to
// fill a disk.
constexpr int kKeptInQuarantine = 3;
// Another daemon may publish or set aside the same entry between two of our
// steps; more often than this in a row something else is wrong.
constexpr int kMaxPublishAttempts = 4;

constexpr const char* kFolders[] = {"entries", "staging", "quarantine",
                                    "locks",   "notes",   "scratch"};

// An artifact is code: nobody else may be able to put one here.
absl::Status CheckPrivate(Files& files, const std::string& folder) {
  ASSIGN_OR_RETURN(const FileInfo info, files.Stat(folder));
  if (info.type != FileInfo::Type::kFolder) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel cache ", folder, " is not a folder"));
  }
  if (info.owner != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel cache ", folder, " belongs to user ", info.owner,
                     ", expected ", geteuid()));
  }
  if ((info.permissions & 022) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "kernel cache ", folder, " may be written by others (mode 0",
        absl::Hex(info.permissions >> 6 & 7),
        absl::Hex(info.permissions >> 3 & 7), absl::Hex(info.permissions & 7),
        "), expected 0700"));
  }
  return absl::OkStatus();
}

bool IsNoteName(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

absl::Status EmptyKeyError() {
  return absl::InvalidArgumentError("kernel cache: the artifact key is empty");
}

}  // namespace

struct KernelCache::Impl {
  Impl(std::string root, Files& f, MetricRegistry& m)
      : home(std::move(root)),
        files(f),
        metrics(m),
        staging(absl::StrCat(home, "/staging"), f) {}

  std::string EntryFolder(const ArtifactKey& key) const {
    return absl::StrCat(home, "/entries/", key.hex().substr(0, 2), "/",
                        key.hex());
  }
  std::string NotesFolder(const ArtifactKey& key) const {
    return absl::StrCat(home, "/notes/", key.hex());
  }

  EntryCheck Check(const ArtifactKey& key) const {
    return CheckEntry(files, EntryFolder(key), key, EntryKind::kCommitted);
  }
  CacheEntry Found(const ArtifactKey& key, EntryCheck check);
  EntryCheck SetAsideIfBad(const ArtifactKey& key);
  absl::Status MoveToQuarantine(const ArtifactKey& key, std::string_view label,
                                std::string_view reason);
  absl::StatusOr<CacheEntry> Publish(const ArtifactKey& key,
                                     const std::string& staging_folder,
                                     EntryCheck staged);
  void CountRequest(const char* result) {
    metrics.Counter(metric::kCacheRequests, {{"result", result}}).Add();
  }
  void CountCommit(const char* result) {
    metrics.Counter(metric::kCacheCommits, {{"result", result}}).Add();
  }

  const std::string home;  // <root>/v1

  Files& files;
  MetricRegistry& metrics;
  StagingArea staging;

  absl::Mutex mu;
  std::map<ArtifactKey, int64_t> seen_bytes ABSL_GUARDED_BY(mu);
};

CacheEntry KernelCache::Impl::Found(const ArtifactKey& key, EntryCheck check) {
  int64_t before;
  {
    absl::MutexLock lock(&mu);
    before = std::exchange(seen_bytes[key], check.bytes);
  }
  metrics.Gauge(metric::kCacheBytes)
      .Add(static_cast<double>(check.bytes - before));
  return {.key = key,
          .folder = EntryFolder(key),
          .manifest_json = std::move(check.manifest_json),
          .bytes = check.bytes};
}

// Moves the entry to quarantine. The caller holds the key's .move lock.
absl::Status KernelCache::Impl::MoveToQuarantine(const ArtifactKey& key,
                                                 std::string_view label,
                                                 std::string_view reason) {
  std::string target;
  for (int n = 0; n < kKeptInQuarantine; ++n) {
    target = absl::StrCat(home, "/quarantine/", key.hex(), ".", n);
    if (absl::IsNotFound(files.Stat(target).status())) break;
    if (n == kKeptInQuarantine - 1) RETURN_IF_ERROR(files.Remove(target));
  }
  RETURN_IF_ERROR(files.Remove(NotesFolder(key)));
  RETURN_IF_ERROR(files.Rename(EntryFolder(key), target));
  metrics.Counter(metric::kCacheRejections, {{"reason", std::string(label)}})
      .Add();
  spdlog::warn("cache entry {} set aside in {}: {}", key.Short(), target,
               reason);
  return files.Write(absl::StrCat(target, "/reason.txt"),
                     absl::StrCat(Absl(reason), "\n"));
}

// Looks at an entry that was found bad once more, now with the key's .move
// lock, and sets it aside if it still is: another daemon may have replaced it
// meanwhile, and a good entry must not pay for a bad one's report. Returns what
// was found.
EntryCheck KernelCache::Impl::SetAsideIfBad(const ArtifactKey& key) {
  const absl::StatusOr<std::unique_ptr<FileLock>> lock =
      files.TryLock(absl::StrCat(home, "/locks/", key.hex(), ".move"));
  if (!lock.ok()) {
    spdlog::warn("cache entry {} is damaged and stays where it is: {}",
                 key.Short(), std::string(lock.status().message()));
    return {.result = Result::kUnreadable,
            .detail = std::string(lock.status().message())};
  }
  if (*lock == nullptr) {
    return {.result = Result::kUnreadable,
            .detail = "it is being set aside by somebody else"};
  }
  EntryCheck check = Check(key);
  if (check.result != Result::kDamaged && check.result != Result::kUnreadable) {
    return check;
  }
  const std::string_view label =
      check.result == Result::kDamaged ? check.reason : "checksum";
  const absl::Status moved = MoveToQuarantine(key, label, check.detail);
  if (!moved.ok()) {
    spdlog::warn("cache entry {} is damaged ({}): {}", key.Short(),
                 check.detail, std::string(moved.message()));
  }
  return check;
}

absl::StatusOr<CacheEntry> KernelCache::Impl::Publish(
    const ArtifactKey& key, const std::string& staging_folder,
    EntryCheck staged) {
  RETURN_IF_ERROR(
      files.Write(absl::StrCat(staging_folder, "/", Absl(kSealName)),
                  SealOf(staged.manifest_json)));
  RETURN_IF_ERROR(files.SyncTree(staging_folder));
  const std::string folder = EntryFolder(key);
  std::string obstacle;
  for (int attempt = 0; attempt < kMaxPublishAttempts; ++attempt) {
    EntryCheck existing = Check(key);
    if (existing.result == Result::kGood) {
      staging.Release(staging_folder);
      CountCommit("duplicate");
      return Found(key, std::move(existing));
    }
    if (existing.result != Result::kAbsent) {
      obstacle = SetAsideIfBad(key).detail;
      continue;
    }
    RETURN_IF_ERROR(files.MakeFolders(
        absl::StrCat(home, "/entries/", key.hex().substr(0, 2))));
    const absl::Status renamed = files.Rename(staging_folder, folder);
    if (absl::IsAlreadyExists(renamed)) {
      obstacle = std::string(renamed.message());
      continue;  // another daemon was faster
    }
    RETURN_IF_ERROR(renamed);
    staging.Release(staging_folder);
    CountCommit("ok");
    spdlog::info("cache entry {} committed: {} bytes", key.Short(),
                 staged.bytes);
    return Found(key, std::move(staged));
  }
  return absl::UnavailableError(absl::StrCat(
      "commit of ", key.hex(), ": a bad entry is in the way: ", obstacle));
}

absl::StatusOr<std::unique_ptr<KernelCache>> KernelCache::Open(
    const std::string& root, Files& files, MetricRegistry& metrics) {
  RETURN_IF_ERROR(files.MakeFolders(root));
  std::error_code error;
  const std::string real_root = std::filesystem::canonical(root, error);
  if (error) {
    return ErrnoStatus(error.value(), absl::StrCat("kernel cache ", root));
  }
  // Before anything is made below it.
  RETURN_IF_ERROR(CheckPrivate(files, real_root));
  const std::string home = absl::StrCat(real_root, "/v1");
  RETURN_IF_ERROR(files.MakeFolders(home));
  RETURN_IF_ERROR(CheckPrivate(files, home));
  for (const char* name : kFolders) {
    const std::string folder = absl::StrCat(home, "/", name);
    RETURN_IF_ERROR(files.MakeFolders(folder));
    RETURN_IF_ERROR(CheckPrivate(files, folder));
  }
  auto impl = std::make_unique<Impl>(home, files, metrics);
  if (const absl::Status removed = impl->staging.RemoveOwnerless();
      !removed.ok()) {
    spdlog::warn("kernel cache {}: left-over staging folders stay: {}", home,
                 std::string(removed.message()));
  }
  return std::unique_ptr<KernelCache>(new KernelCache(std::move(impl)));
}

KernelCache::KernelCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KernelCache::~KernelCache() = default;

std::optional<CacheEntry> KernelCache::Lookup(const ArtifactKey& key) {
  if (key.hex().empty()) return std::nullopt;
  EntryCheck check = impl_->Check(key);
  if (check.result == Result::kUnreadable) {
    spdlog::warn("cache entry {} can't be read: {}", key.Short(), check.detail);
  }
  const bool was_damaged = check.result == Result::kDamaged;
  if (was_damaged) check = impl_->SetAsideIfBad(key);
  if (check.result == Result::kGood) {
    impl_->CountRequest("hit");
    return impl_->Found(key, std::move(check));
  }
  impl_->CountRequest(was_damaged ? "damaged" : "miss");
  return std::nullopt;
}

void KernelCache::Quarantine(const ArtifactKey& key, std::string_view reason) {
  if (key.hex().empty()) return;
  const auto lock = impl_->files.TryLock(
      absl::StrCat(impl_->home, "/locks/", key.hex(), ".move"));
  absl::Status moved = lock.status();
  if (moved.ok()) {
    if (*lock == nullptr) return;  // somebody else is setting it aside
    moved = impl_->MoveToQuarantine(key, "open", reason);
  }
  if (!moved.ok() && !absl::IsNotFound(moved)) {
    spdlog::warn("cache entry {} is unusable ({}): {}", key.Short(), reason,
                 std::string(moved.message()));
  }
}

absl::StatusOr<std::unique_ptr<FileLock>> KernelCache::TryLock(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  return impl_->files.TryLock(absl::StrCat(impl_->home, "/locks/", key.hex()));
}

absl::StatusOr<std::string> KernelCache::NewStagingFolder(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  return impl_->staging.NewFolder(key.Short());
}

absl::StatusOr<CacheEntry> KernelCache::Commit(
    const ArtifactKey& key, const std::string& staging_folder) {
  absl::StatusOr<CacheEntry> entry = [&]() -> absl::StatusOr<CacheEntry> {
    if (key.hex().empty()) return EmptyKeyError();
    if (!impl_->staging.Owns(staging_folder)) {
      return absl::FailedPreconditionError(
          absl::StrCat("commit of ", key.hex(), ": ", staging_folder,
                       " is no staging folder of this cache"));
    }
    EntryCheck staged =
        CheckEntry(impl_->files, staging_folder, key, EntryKind::kStaged);
    if (staged.result == Result::kUnreadable) {
      return absl::InternalError(
          absl::StrCat("commit of ", key.hex(), ": ", staged.detail));
    }
    if (staged.result != Result::kGood) {
      return absl::FailedPreconditionError(absl::StrCat(
          "commit of ", key.hex(), ": ",
          staged.result == Result::kAbsent ? "the staging folder is gone"
                                           : staged.detail));
    }
    return impl_->Publish(key, staging_folder, std::move(staged));
  }();
  if (!entry.ok()) impl_->CountCommit("failed");
  return entry;
}

void KernelCache::Abandon(const std::string& staging_folder) {
  impl_->staging.Release(staging_folder);
}

absl::Status KernelCache::WriteNote(const ArtifactKey& key,
                                    std::string_view name,
                                    std::string_view bytes) {
  if (key.hex().empty()) return EmptyKeyError();
  if (!IsNoteName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "note name \"", Absl(name), "\", expected [a-z0-9_-][a-z0-9._-]*"));
  }
  ASSIGN_OR_RETURN(const std::string staged,
                   impl_->staging.NewFolder(key.Short()));
  const std::string draft = absl::StrCat(staged, "/note");
  const std::string folder = impl_->NotesFolder(key);
  absl::Status done = impl_->files.Write(draft, bytes);
  if (done.ok()) done = impl_->files.MakeFolders(folder);
  if (done.ok()) {
    done = impl_->files.Rename(draft, absl::StrCat(folder, "/", Absl(name)));
  }
  impl_->staging.Release(staged);
  return done;
}

std::optional<std::string> KernelCache::ReadNote(const ArtifactKey& key,
                                                 std::string_view name) {
  if (key.hex().empty() || !IsNoteName(name)) return std::nullopt;
  absl::StatusOr<std::string> note =
      impl_->files.Read(absl::StrCat(impl_->NotesFolder(key), "/", Absl(name)));
  if (!note.ok()) {
    if (!absl::IsNotFound(note.status())) {
      spdlog::warn("note {} of {}: {}", name, key.Short(),
                   std::string(note.status().message()));
    }
    return std::nullopt;
  }
  return *std::move(note);
}

std::string KernelCache::scratch_folder() const {
  return absl::StrCat(impl_->home, "/scratch");
}

}  // namespace stoker
