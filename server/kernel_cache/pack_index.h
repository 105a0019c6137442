// The table of contents of a pack: index.json, its first member. It names every
// other member with size and SHA-256, so whoever has checked the index (or its
// signature) can check the rest, and it says what the entries are and which
// hardware they fit without unpacking them.
//
//   {"entries":[{"bucket":"batch=8","compile_seconds":18.2,"factors":{...},
//                "key":"<64 hex>","model":"minilm:1"},...],
//    "format":"stoker-kernel-pack",
//    "hardware":{"cpu.march":["x86-64-v4"],...},
//    "members":[{"bytes":712345,"name":"v1/entries/ab/ab12.../model.so",
//                "sha256":"..."},...],
//    "version":1}
//
// One content has one text: keys sorted, no spaces (here only for reading),
// entries by key, members by name. Any other text is refused.
//
// Values; pure; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernel_cache/artifact_key.h"

namespace stoker {

inline constexpr std::string_view kPackIndexName = "index.json";
inline constexpr std::string_view kPackSignatureName = "index.json.sig";

// An entry takes about 2 kB. Parsed, an index that was made to be costly takes
// thirty times its size.
inline constexpr int64_t kMaxPackIndexBytes = int64_t{32} << 20;
inline constexpr int64_t kMaxPackSignatureBytes = 4096;
// Of one manifest, and of all notes together: what is held in memory.
inline constexpr int64_t kMaxPackManifestBytes = int64_t{16} << 20;
inline constexpr int64_t kMaxPackNotesBytes = int64_t{64} << 20;

struct PackEntry {
  ArtifactKey key;
  KeyFactors factors;
  std::string model;   // "minilm:1", as the compile job named it
  std::string bucket;  // "batch=8,tokens=32"
  double compile_seconds = 0;

  friend bool operator==(const PackEntry&, const PackEntry&) = default;
};

struct PackMember {
  std::string name;  // path in the archive
  int64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits

  friend bool operator==(const PackMember&, const PackMember&) = default;
};

// Factor → the values that occur, of the factors that describe a machine and
// its software: device, torch, python, cxx, cpu.march, cuda.arch, ...
using PackHardware = std::map<std::string, std::set<std::string>>;

struct PackIndex {
  std::vector<PackEntry> entries;   // by key
  std::vector<PackMember> members;  // by name
};

PackHardware HardwareOf(const std::vector<PackEntry>& entries);

// What a member is, by its name.
struct PackPlace {
  enum class Kind { kEntryFile, kNote };
  Kind kind = Kind::kEntryFile;
  ArtifactKey key;
  std::string name;  // of the file or the note
};

// Which notes stay with the cache that they were written to, by how their names
// begin: what is about one machine, or only for its people. A pin stays in any
// case, as what to keep is for each cache's owner to say.
struct LocalNotes {
  std::vector<std::string_view> prefixes;
  bool Has(std::string_view note) const;
};

// v1/entries/<2 hex>/<64 hex>/<file>
std::string PackEntryFileName(const ArtifactKey& key, std::string_view file);
// v1/notes/<64 hex>/<note>
std::string PackNoteName(const ArtifactKey& key, std::string_view note);
// nullopt for every name that neither of those two makes, and for a pin.
std::optional<PackPlace> ParsePackMemberName(std::string_view name);

// What a manifest says about its entry. INVALID_ARGUMENT when it lacks
// something or when the key is not that of its factors.
absl::StatusOr<PackEntry> DescribeEntry(const ArtifactKey& key,
                                        std::string_view manifest_json);

// The members that the manifest's entry must have: the files that it lists,
// itself, and its seal; sorted by name.
absl::StatusOr<std::vector<PackMember>> MembersOfEntry(
    const ArtifactKey& key, std::string_view manifest_json);

// The entries are in order and complete, the members are in order, belong to
// the entries and have sizes that a tar header can hold.
absl::Status CheckPackIndex(const PackIndex& index);

std::string PackIndexJson(const PackIndex& index);
// INVALID_ARGUMENT, saying what was expected and what came, for everything that
// PackIndexJson does not make of an index that passes CheckPackIndex.
absl::StatusOr<PackIndex> ParsePackIndex(std::string_view json);

// The length of the whole archive.
int64_t PackBytes(const PackIndex& index, int64_t index_bytes,
                  std::optional<int64_t> signature_bytes);

}  // namespace stoker
