#include "kernel_cache/leftovers.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"

namespace stoker {
namespace {

// Of the compile worker (compiler/job/work_folder.py): a folder for each that
// runs, which holds the lock in it, and its precompiled headers.
constexpr char kWork[] = "work";
constexpr char kLock[] = "lock";
constexpr char kHeaders[] = "headers";

}  // namespace

Leftovers::Use Leftovers::Measure() const {
  Use use;
  for (const char* name : {"notes", "traffic", "locks", "staging"}) {
    use.kept += BytesBelow(root_.Folder(name));
  }
  for (const char* name : {"quarantine", "scratch"}) {
    use.removable += BytesBelow(root_.Folder(name));
  }
  return use;
}

int64_t Leftovers::Trim(int64_t bytes) {
  int64_t gone = 0;
  std::vector<Piece> pieces = Children(root_.Folder("quarantine"));
  if (!ScratchIsUsed()) {
    std::vector<Piece> scratch = Scratch();
    std::move(scratch.begin(), scratch.end(), std::back_inserter(pieces));
  }
  for (const Piece& piece : pieces) {
    if (gone >= bytes) break;
    Remove(piece);
    gone += piece.bytes;
  }
  return gone;
}

int64_t Leftovers::BytesBelow(const std::string& path) const {
  Files& files = root_.files();
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return 0;  // gone meanwhile
  if (info->type != FileInfo::Type::kFolder) return info->bytes;
  int64_t bytes = 0;
  const auto names = files.List(path);
  if (!names.ok()) return 0;
  for (const std::string& name : *names) {
    bytes += BytesBelow(absl::StrCat(path, "/", name));
  }
  return bytes;
}

std::vector<Leftovers::Piece> Leftovers::Children(
    const std::string& folder) const {
  Files& files = root_.files();
  std::vector<Piece> pieces;
  const auto names = files.List(folder);
  if (!names.ok()) return pieces;
  for (const std::string& name : *names) {
    std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<FileInfo> info = files.Stat(path);
    if (!info.ok()) continue;
    const int64_t bytes = BytesBelow(path);
    pieces.push_back({std::move(path), bytes, info->modified});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.modified < b.modified;
  });
  return pieces;
}

std::vector<Leftovers::Piece> Leftovers::Scratch() const {
  const std::string scratch = root_.Folder("scratch");
  const std::string headers = absl::StrCat(scratch, "/", kHeaders);
  std::vector<Piece> pieces = Children(headers);
  for (Piece& piece : Children(scratch)) {
    if (piece.path != headers) pieces.push_back(std::move(piece));
  }
  return pieces;
}

bool Leftovers::ScratchIsUsed() const {
  Files& files = root_.files();
  const std::string work = absl::StrCat(root_.Folder("scratch"), "/", kWork);
  const auto names = files.List(work);
  if (!names.ok()) return !absl::IsNotFound(names.status());
  return std::any_of(names->begin(), names->end(), [&](const auto& name) {
    const std::string path = absl::StrCat(work, "/", name, "/", kLock);
    // One without a lock is just being made.
    if (!files.Stat(path).ok()) return true;
    const auto lock = files.TryLock(path);
    return !lock.ok() || *lock == nullptr || !(*lock)->excludes();
  });
}

void Leftovers::Remove(const Piece& piece) {
  Files& files = root_.files();
  // Moved away first, so that nobody finds half of it.
  const absl::StatusOr<std::string> folder =
      root_.staging().NewFolder("leftover");
  if (!folder.ok()) return;
  const absl::Status moved =
      files.Rename(piece.path, absl::StrCat(*folder, "/removed"));
  if (!moved.ok()) {
    log::Warn("{} could not be removed: {}", piece.path,
              std::string(moved.message()));
  }
  root_.staging().Release(*folder);
}

}  // namespace stoker
