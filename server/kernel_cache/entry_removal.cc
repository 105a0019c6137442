#include "kernel_cache/entry_removal.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// Per key: enough to see a pattern, too few to fill a disk.
constexpr int kKeptInQuarantine = 3;

absl::Status Busy(const ArtifactKey& key, const char* how) {
  return absl::UnavailableError(
      absl::StrCat("entry ", key.Short(), " is ", how));
}

}  // namespace

absl::StatusOr<std::string> EntryRemoval::SetAside(const ArtifactKey& key,
                                                   std::string_view reason) {
  Files& files = root_.files();
  std::string target;
  for (int n = 0; n < kKeptInQuarantine; ++n) {
    target = absl::StrCat(root_.Folder("quarantine"), "/", key.hex(), ".", n);
    if (absl::IsNotFound(files.Stat(target).status())) break;
    if (n == kKeptInQuarantine - 1) RETURN_IF_ERROR(files.Remove(target));
  }
  RETURN_IF_ERROR(facts_.RemoveNotes(key));
  RETURN_IF_ERROR(files.Rename(root_.top().EntryFolder(key), target));
  const absl::Status told = files.Write(absl::StrCat(target, "/reason.txt"),
                                        absl::StrCat(Absl(reason), "\n"));
  if (!told.ok()) {
    log::Warn("{}: the reason is not written down: {}", target,
              std::string(told.message()));
  }
  return target;
}

absl::Status EntryRemoval::RemoveUnused(
    const ArtifactKey& key, absl::FunctionRef<absl::Status()> check) {
  Files& files = root_.files();
  ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> use,
                   files.TryLock(root_.LockPath(key, Lock::kUse)));
  if (use == nullptr || !use->excludes()) return Busy(key, "in use");
  ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> move,
                   files.TryLock(root_.LockPath(key, Lock::kMove)));
  if (move == nullptr) return Busy(key, "being set aside");
  RETURN_IF_ERROR(check());
  ASSIGN_OR_RETURN(const std::string folder,
                   root_.staging().NewFolder(key.Short()));
  absl::Status gone = facts_.RemoveNotes(key);
  // Moved away first, so that nobody finds half an entry.
  if (gone.ok()) {
    gone = files.Rename(root_.top().EntryFolder(key),
                        absl::StrCat(folder, "/removed"));
  }
  root_.staging().Release(folder);
  RETURN_IF_ERROR(gone);
  // Of a lock that somebody else holds the file stays, or a third would get the
  // lock on another one: the key may be being compiled right now.
  const auto compile = files.TryLock(root_.LockPath(key, Lock::kCompile));
  const bool is_ours = compile.ok() && *compile != nullptr;
  for (const Lock lock : {Lock::kCompile, Lock::kUse, Lock::kMove}) {
    if (lock == Lock::kCompile && !is_ours) continue;
    files.Remove(root_.LockPath(key, lock)).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace stoker
