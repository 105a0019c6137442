#include "kernel_cache/cache_layer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernel_cache/pack_index.h"

namespace stoker {

namespace {

absl::StatusOr<std::optional<std::string>> ReadIfThere(Files& files,
                                                       const std::string& path,
                                                       int64_t max_bytes) {
  absl::StatusOr<std::string> bytes = ReadAtMost(files, path, max_bytes);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  return bytes;
}

}  // namespace

bool IsNoteName(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

CacheLayer::CacheLayer(const std::string& root, Files& files)
    : home_(absl::StrCat(root, "/v1")), files_(&files) {}

absl::Status CacheLayer::CheckOwner(const std::string& folder,
                                    bool root_may_own) const {
  ASSIGN_OR_RETURN(const FileInfo info, files_->Stat(folder));
  if (info.type != FileInfo::Type::kFolder) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel cache ", folder, " is not a folder"));
  }
  return CheckOnlyOwnerWrites(info, absl::StrCat("kernel cache ", folder),
                              root_may_own, "0700");
}

std::string CacheLayer::EntryFolder(const ArtifactKey& key) const {
  return absl::StrCat(home_, "/entries/", key.hex().substr(0, 2), "/",
                      key.hex());
}

std::string CacheLayer::NotesFolder(const ArtifactKey& key) const {
  return absl::StrCat(home_, "/notes/", key.hex());
}

absl::Status CacheLayer::RequireSignature(
    const std::vector<PublicKey>& trusted) {
  const std::string index_path =
      absl::StrCat(home_, "/../", Absl(kPackIndexName));
  ASSIGN_OR_RETURN(const std::optional<std::string> index_json,
                   ReadIfThere(*files_, index_path, kMaxPackIndexBytes));
  if (!index_json.has_value()) {
    return absl::PermissionDeniedError(
        absl::StrCat("expected an unpacked pack that is signed, found no ",
                     Absl(kPackIndexName), " beside its v1"));
  }
  ASSIGN_OR_RETURN(
      const std::optional<std::string> signature,
      ReadIfThere(*files_,
                  absl::StrCat(home_, "/../", Absl(kPackSignatureName)),
                  kMaxPackSignatureBytes));
  RETURN_IF_ERROR(Permit({.trusted = trusted},
                         CheckSignature(*index_json, signature, trusted)));
  ASSIGN_OR_RETURN(const PackIndex index, ParsePackIndex(*index_json));
  auto contents = std::make_shared<Contents>();
  for (const PackMember& member : index.members) {
    contents->emplace(member.name, member.sha256);
  }
  signed_ = std::move(contents);
  return absl::OkStatus();
}

bool CacheLayer::Vouches(const std::string& member,
                         std::string_view bytes) const {
  if (signed_ == nullptr) return true;
  const auto found = signed_->find(member);
  return found != signed_->end() && found->second == Sha256Hex(bytes);
}

EntryCheck CacheLayer::Check(const ArtifactKey& key) const {
  const std::string entry = EntryFolder(key);
  const absl::Status above =
      CheckOwner(entry.substr(0, entry.rfind('/')), /*root_may_own=*/true);
  if (absl::IsPermissionDenied(above)) {
    return {.result = EntryCheck::Result::kDamaged,
            .reason = "owner",
            .detail = std::string(above.message())};
  }
  EntryCheck check =
      CheckEntry(*files_, EntryFolder(key), key, EntryKind::kCommitted);
  // The manifest has the digests of all else.
  if (check.result == EntryCheck::Result::kGood &&
      !Vouches(PackEntryFileName(key, kManifestName), check.manifest_json)) {
    return {.result = EntryCheck::Result::kDamaged,
            .reason = "signature",
            .detail = absl::StrCat(EntryFolder(key), "/", Absl(kManifestName),
                                   " is not what was signed")};
  }
  return check;
}

absl::StatusOr<std::string> CacheLayer::ReadManifest(
    const ArtifactKey& key) const {
  return files_->Read(absl::StrCat(EntryFolder(key), "/", Absl(kManifestName)));
}

std::vector<ArtifactKey> CacheLayer::Keys() const {
  std::vector<ArtifactKey> keys;
  const std::string entries = absl::StrCat(home_, "/entries");
  const auto prefixes = files_->List(entries);
  if (!prefixes.ok()) return keys;
  for (const std::string& prefix : *prefixes) {
    const auto names = files_->List(absl::StrCat(entries, "/", prefix));
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
  const auto names = files_->List(folder);
  if (!names.ok()) return 0;
  int64_t bytes = 0;
  for (const std::string& name : *names) {
    bytes += files_->Size(absl::StrCat(folder, "/", name)).value_or(0);
  }
  return bytes;
}

// The seal is written last and read at each lookup, so its time of modification
// is free to say when that was.
absl::Time CacheLayer::LastUsed(const ArtifactKey& key) const {
  const auto info =
      files_->Stat(absl::StrCat(EntryFolder(key), "/", Absl(kSealName)));
  return info.ok() ? info->modified : absl::InfinitePast();
}

absl::Status CacheLayer::MarkUsed(const ArtifactKey& key) const {
  return files_->Touch(absl::StrCat(EntryFolder(key), "/", Absl(kSealName)));
}

absl::StatusOr<std::string> CacheLayer::ReadNote(const ArtifactKey& key,
                                                 std::string_view name) const {
  const std::string path = absl::StrCat(NotesFolder(key), "/", Absl(name));
  ASSIGN_OR_RETURN(std::string note, files_->Read(path));
  if (Vouches(PackNoteName(key, name), note)) return note;
  return absl::PermissionDeniedError(
      absl::StrCat(path, " is not what was signed"));
}

std::vector<std::string> CacheLayer::NoteNames(const ArtifactKey& key) const {
  auto names =
      files_->List(NotesFolder(key)).value_or(std::vector<std::string>());
  std::erase_if(names, [&](const std::string& name) {
    return signed_ != nullptr && !signed_->contains(PackNoteName(key, name));
  });
  return names;
}

}  // namespace stoker
