#include "kernel_cache/cache_root.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr const char* kFolders[] = {"entries", "staging", "quarantine", "locks",
                                    "notes",   "traffic", "scratch"};

// Links are followed once, here.
absl::StatusOr<std::string> RealPath(const std::string& path) {
  std::error_code error;
  std::string real = std::filesystem::weakly_canonical(path, error);
  if (error) {
    return ErrnoStatus(error.value(), absl::StrCat("kernel cache ", path));
  }
  return real;
}

absl::StatusOr<CacheLayer> OpenLayer(const std::string& path,
                                     const std::vector<PublicKey>& trusted,
                                     Files& files) {
  ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  CacheLayer layer(real, files);
  const std::string entries = absl::StrCat(layer.home(), "/entries");
  if (!files.Stat(entries).ok()) {
    return absl::NotFoundError(absl::StrCat(
        "kernel cache layer ", path, ": expected a folder v1/entries in it"));
  }
  for (const std::string& folder : {real, layer.home(), entries}) {
    RETURN_IF_ERROR(layer.CheckOwner(folder, /*root_may_own=*/true));
  }
  if (trusted.empty()) return layer;
  const absl::Status vouched = layer.RequireSignature(trusted);
  if (!vouched.ok()) {
    return absl::Status(
        vouched.code(),
        absl::StrCat("kernel cache layer ", path, ": ", vouched.message()));
  }
  return layer;
}

const char* Suffix(CacheRoot::Lock lock) {
  switch (lock) {
    case CacheRoot::Lock::kCompile:
      break;
    case CacheRoot::Lock::kUse:
      return ".use";
    case CacheRoot::Lock::kMove:
      return ".move";
  }
  return "";
}

}  // namespace

CacheRoot::CacheRoot(std::vector<CacheLayer> layers, Files& files)
    : layers_(std::move(layers)),
      files_(files),
      staging_(absl::StrCat(layers_.front().home(), "/staging"), files) {}

absl::StatusOr<std::unique_ptr<CacheRoot>> CacheRoot::Open(
    const std::string& root, const std::vector<std::string>& layers,
    const std::vector<PublicKey>& trusted, Files& files) {
  ASSIGN_OR_RETURN(const std::string real, RealPath(root));
  std::vector<CacheLayer> all = {CacheLayer(real, files)};
  for (const std::string& path : layers) {
    ASSIGN_OR_RETURN(CacheLayer layer, OpenLayer(path, trusted, files));
    all.push_back(std::move(layer));
  }
  std::unique_ptr<CacheRoot> opened(new CacheRoot(std::move(all), files));
  // Before anything is made below it, and once more what was made.
  RETURN_IF_ERROR(opened->CheckOwners(real));
  const absl::Status made = opened->MakeFolders();
  RETURN_IF_ERROR(opened->CheckOwners(real));
  if (!absl::IsPermissionDenied(made) && !absl::IsResourceExhausted(made)) {
    RETURN_IF_ERROR(made);  // a mistake rather than a state of the disk
  }
  if (!made.ok()) {
    log::Warn("kernel cache {} can't be written, nothing is compiled: {}", real,
              std::string(made.message()));
    opened->writable_ = absl::UnavailableError(made.message());
  } else if (const absl::Status locks = opened->TryLocks(); !locks.ok()) {
    log::Warn("kernel cache {}: nothing can be locked, nothing is compiled: {}",
              real, std::string(locks.message()));
    opened->writable_ = absl::UnavailableError(locks.message());
  } else if (const absl::Status removed = opened->staging_.RemoveOwnerless();
             !removed.ok()) {
    log::Warn("kernel cache {}: left-over staging folders stay: {}", real,
              std::string(removed.message()));
  }
  return opened;
}

// Everything that is written lies below folders of our own.
absl::Status CacheRoot::CheckOwners(const std::string& root) const {
  std::vector<std::string> folders = {root, top().home()};
  for (const char* name : kFolders) folders.push_back(Folder(name));
  for (const std::string& folder : folders) {
    if (absl::IsNotFound(files_.Stat(folder).status())) continue;
    RETURN_IF_ERROR(top().CheckOwner(folder, /*root_may_own=*/false));
  }
  return absl::OkStatus();
}

absl::Status CacheRoot::TryLocks() const {
  const std::string path = absl::StrCat(Folder("locks"), "/.try");
  absl::Status tried = files_.TryLock(path).status();
  files_.Remove(path).IgnoreError();
  return tried;
}

absl::Status CacheRoot::MakeFolders() const {
  for (const char* name : kFolders) {
    RETURN_IF_ERROR(files_.MakeFolders(Folder(name)));
  }
  return absl::OkStatus();
}

std::string CacheRoot::Folder(std::string_view name) const {
  return absl::StrCat(top().home(), "/", Absl(name));
}

std::string CacheRoot::LockPath(const ArtifactKey& key, Lock lock) const {
  return absl::StrCat(Folder("locks"), "/", key.hex(), Suffix(lock));
}

absl::Status CacheRoot::Replace(const std::string& folder,
                                std::string_view name, std::string_view bytes) {
  ASSIGN_OR_RETURN(const std::string staged, staging_.NewFolder("note"));
  const std::string draft = absl::StrCat(staged, "/draft");
  absl::Status done = files_.Write(draft, bytes);
  if (done.ok()) done = files_.MakeFolders(folder);
  if (done.ok()) {
    done = files_.Rename(draft, absl::StrCat(folder, "/", Absl(name)));
  }
  staging_.Release(staged);
  return done;
}

}  // namespace stoker
