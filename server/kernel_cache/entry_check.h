// Whether a folder holds exactly the artifact that its manifest describes. The
// manifest's fields are documented in compiler/job/protocol.py.
//
// Pure but for reading files; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/files.h"
#include "kernel_cache/artifact_key.h"

namespace stoker {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kSealName = "manifest.sha256";

// The content of the seal for that manifest, as sha256sum writes it.
std::string SealOf(std::string_view manifest_json);

struct EntryCheck {
  enum class Result {
    kGood,
    kAbsent,      // there is no such folder
    kDamaged,     // it is not what was committed
    kUnreadable,  // the disk did not say: `detail` does
  };
  Result result = Result::kAbsent;
  std::string_view reason;    // of damage: manifest, checksum, missing_file,
                              // signature, owner
  std::string detail;         // what was expected and what came
  std::string manifest_json;  // when good
  int64_t bytes = 0;          // when good, of all files
  // When good: the very files that were verified are below its path.
  std::shared_ptr<const OpenFolder> verified;
};

// kStaged: as the compile worker leaves it, a seal may be there or not.
enum class EntryKind { kCommitted, kStaged };

EntryCheck CheckEntry(Files& files, const std::string& folder,
                      const ArtifactKey& key, EntryKind kind);

}  // namespace stoker
