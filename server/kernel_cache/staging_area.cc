#include "kernel_cache/staging_area.h"

#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr std::string_view kLockSuffix = ".lock";

// On a file system without locks nobody can tell whether an owner lives. No
// compile takes this long.
constexpr absl::Duration kSurelyOwnerless = absl::Hours(24);

// Not for secrecy: two daemons, in two containers perhaps, must not choose the
// same.
std::string RandomSuffix() {
  std::random_device device;
  const uint64_t high = device(), low = device();
  return absl::StrCat(absl::Hex(high << 32 | low, absl::kZeroPad16));
}

}  // namespace

StagingArea::StagingArea(std::string root, Files& files)
    : root_(std::move(root)), files_(files) {}

StagingArea::~StagingArea() {
  std::vector<std::string> folders;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [folder, file_lock] : owned_) folders.push_back(folder);
  }
  for (const std::string& folder : folders) Release(folder);
}

std::string StagingArea::LockPath(const std::string& folder) {
  return absl::StrCat(folder, Absl(kLockSuffix));
}

absl::Status StagingArea::RemoveOwnerless() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(root_));
  std::set<std::string> folders;
  for (const std::string& name : names) {
    folders.emplace(absl::StripSuffix(name, Absl(kLockSuffix)));
  }
  for (const std::string& name : folders) {
    const std::string folder = absl::StrCat(root_, "/", name);
    ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock,
                     files_.TryLock(LockPath(folder)));
    if (lock == nullptr) continue;  // its owner lives
    if (!lock->excludes() && !IsOld(LockPath(folder))) continue;
    RETURN_IF_ERROR(files_.Remove(folder));
    // The lock file last: a folder without one would be taken for ownerless all
    // the same, but the lock must outlive what it guards.
    RETURN_IF_ERROR(files_.Remove(LockPath(folder)));
    log::Info("removed unfinished staging folder {}", folder);
  }
  return absl::OkStatus();
}

// By the file system's own clock, which several hosts share.
bool StagingArea::IsOld(const std::string& path) const {
  if (!files_.Touch(root_).ok()) return false;
  const absl::StatusOr<FileInfo> now = files_.Stat(root_);
  const absl::StatusOr<FileInfo> info = files_.Stat(path);
  return now.ok() && info.ok() &&
         now->modified - info->modified > kSurelyOwnerless;
}

absl::StatusOr<std::string> StagingArea::NewFolder(std::string_view prefix) {
  while (true) {
    std::string folder =
        absl::StrCat(root_, "/", Absl(prefix), "-", RandomSuffix());
    ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock,
                     files_.TryLock(LockPath(folder)));
    // Somebody who cleans up was faster with the lock: the name is burnt.
    if (lock == nullptr) continue;
    if (absl::Status made = files_.MakeFolders(folder); !made.ok()) {
      files_.Remove(LockPath(folder)).IgnoreError();
      return made;
    }
    absl::MutexLock hold(&mu_);
    owned_.emplace(folder, std::move(lock));
    return folder;
  }
}

bool StagingArea::Owns(const std::string& folder) const {
  absl::MutexLock lock(&mu_);
  return owned_.contains(folder);
}

void StagingArea::Release(const std::string& folder) {
  std::unique_ptr<FileLock> file_lock;
  {
    absl::MutexLock lock(&mu_);
    const auto it = owned_.find(folder);
    if (it == owned_.end()) return;
    file_lock = std::move(it->second);
    owned_.erase(it);
  }
  for (const std::string& path : {folder, LockPath(folder)}) {
    if (const absl::Status removed = files_.Remove(path); !removed.ok()) {
      // The next Open tries again.
      log::Warn("staging: {}", std::string(removed.message()));
      return;
    }
  }
}

}  // namespace stoker
