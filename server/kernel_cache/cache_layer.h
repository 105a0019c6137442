// One cache folder as it is read. A kernel cache has one that it writes and any
// number below it that somebody else has filled: a layer of an image, a mounted
// volume, an unpacked pack.
//
//   <root>/v1/entries/<2 hex>/<64 hex>/{manifest.json,manifest.sha256,...}
//   <root>/v1/notes/<hex>/<name>         small facts beside an entry (verdicts)
//
// A layer that is an unpacked pack has the pack's table of contents,
// index.json, and perhaps its signature beside v1. Of one that was opened as
// signed nothing counts but what that table names, byte by byte, each time it
// is read.
//
// Immutable, thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/files.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/signature.h"

namespace stoker {

// [a-z0-9._-]+, not starting with a dot.
bool IsNoteName(std::string_view name);

class CacheLayer {
 public:
  // `root` is absolute. `files` must outlive this object.
  CacheLayer(const std::string& root, Files& files);

  // Whether a key of `trusted` has signed what is in this layer; it counts for
  // nothing else from now on. PERMISSION_DENIED when none has, INVALID_ARGUMENT
  // for a wrong signature.
  absl::Status RequireSignature(const std::vector<PublicKey>& trusted);
  bool is_signed() const { return signed_ != nullptr; }

  // An artifact is code: PERMISSION_DENIED when the folder belongs to a third
  // user, or others may write it. Root may own a layer that is only read.
  absl::Status CheckOwner(const std::string& folder, bool root_may_own) const;

  const std::string& home() const { return home_; }  // <root>/v1
  std::string EntryFolder(const ArtifactKey& key) const;
  std::string NotesFolder(const ArtifactKey& key) const;

  // Reads every byte of the entry.
  EntryCheck Check(const ArtifactKey& key) const;
  // The manifest as it is, unverified; what tools list.
  absl::StatusOr<std::string> ReadManifest(const ArtifactKey& key) const;
  // Every folder with the name of a key, sorted; whether good or not.
  std::vector<ArtifactKey> Keys() const;
  // Of all files of an entry, as the file system has it; 0 without an entry.
  int64_t Bytes(const ArtifactKey& key) const;
  // InfinitePast without an entry.
  absl::Time LastUsed(const ArtifactKey& key) const;
  absl::Status MarkUsed(const ArtifactKey& key) const;

  // NOT_FOUND when there is none, PERMISSION_DENIED when it is not what was
  // signed.
  absl::StatusOr<std::string> ReadNote(const ArtifactKey& key,
                                       std::string_view name) const;
  // Sorted.
  std::vector<std::string> NoteNames(const ArtifactKey& key) const;

 private:
  // SHA-256 by the member's name in the pack: "v1/entries/...".
  using Contents = std::map<std::string, std::string>;
  // Whether `bytes` are what was signed under that name, or nothing need be.
  bool Vouches(const std::string& member, std::string_view bytes) const;

  std::string home_;
  Files* files_;
  std::shared_ptr<const Contents> signed_;  // null: no signature is asked for
};

}  // namespace stoker
