#include "kernel_cache/cache_layer.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"

namespace stoker {

bool IsNoteName(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

CacheLayer::CacheLayer(const std::string& root, Files& files)
    : home_(absl::StrCat(root, "/v1")), files_(files) {}

absl::Status CacheLayer::CheckOwner(const std::string& folder,
                                    bool root_may_own) const {
  ASSIGN_OR_RETURN(const FileInfo info, files_.Stat(folder));
  if (info.type != FileInfo::Type::kFolder) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel cache ", folder, " is not a folder"));
  }
  if (info.owner != geteuid() && !(root_may_own && info.owner == 0)) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel cache ", folder, " belongs to user ", info.owner,
                     ", expected ", geteuid(), root_may_own ? " or 0" : ""));
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

std::string CacheLayer::EntryFolder(const ArtifactKey& key) const {
  return absl::StrCat(home_, "/entries/", key.hex().substr(0, 2), "/",
                      key.hex());
}

std::string CacheLayer::NotesFolder(const ArtifactKey& key) const {
  return absl::StrCat(home_, "/notes/", key.hex());
}

EntryCheck CacheLayer::Check(const ArtifactKey& key) const {
  return CheckEntry(files_, EntryFolder(key), key, EntryKind::kCommitted);
}

absl::StatusOr<std::string> CacheLayer::ReadManifest(
    const ArtifactKey& key) const {
  return files_.Read(absl::StrCat(EntryFolder(key), "/", Absl(kManifestName)));
}

std::vector<ArtifactKey> CacheLayer::Keys() const {
  std::vector<ArtifactKey> keys;
  const std::string entries = absl::StrCat(home_, "/entries");
  const auto prefixes = files_.List(entries);
  if (!prefixes.ok()) return keys;
  for (const std::string& prefix : *prefixes) {
    const auto names = files_.List(absl::StrCat(entries, "/", prefix));
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      ArtifactKey key = ArtifactKey::FromHex(name);
      if (!key.hex().empty()) keys.push_back(std::move(key));
    }
  }
  return keys;
}

int64_t CacheLayer::Bytes(const ArtifactKey& key) const {
  const std::string folder = EntryFolder(key);
  const auto names = files_.List(folder);
  if (!names.ok()) return 0;
  int64_t bytes = 0;
  for (const std::string& name : *names) {
    bytes += files_.Size(absl::StrCat(folder, "/", name)).value_or(0);
  }
  return bytes;
}

// The seal is written last and read at each lookup, so its time of modification
// is free to say when that was.
absl::Time CacheLayer::LastUsed(const ArtifactKey& key) const {
  const auto info =
      files_.Stat(absl::StrCat(EntryFolder(key), "/", Absl(kSealName)));
  return info.ok() ? info->modified : absl::InfinitePast();
}

absl::Status CacheLayer::MarkUsed(const ArtifactKey& key) const {
  return files_.Touch(absl::StrCat(EntryFolder(key), "/", Absl(kSealName)));
}

absl::StatusOr<std::string> CacheLayer::ReadNote(const ArtifactKey& key,
                                                 std::string_view name) const {
  return files_.Read(absl::StrCat(NotesFolder(key), "/", Absl(name)));
}

std::vector<std::string> CacheLayer::NoteNames(const ArtifactKey& key) const {
  return files_.List(NotesFolder(key)).value_or(std::vector<std::string>());
}

}  // namespace stoker
