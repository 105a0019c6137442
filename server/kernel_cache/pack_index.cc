#include "kernel_cache/pack_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/entry_store.h"
#include "kernel_cache/ustar.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "stoker-kernel-pack";
constexpr int kVersion = 1;

constexpr std::string_view kEntries = "v1/entries/";
constexpr std::string_view kNotes = "v1/notes/";
constexpr size_t kKeyDigits = 64;

// Factors of these names, alone or before a "." or "_", describe where an
// artifact runs; all others say what it computes and how it was made.
constexpr std::string_view kHardwareFactors[] = {
    "cpu", "cuda",   "cxx",   "device", "gpu",
    "os",  "python", "sympy", "torch",  "triton"};

bool IsHardware(std::string_view factor) {
  const std::string_view family = factor.substr(0, factor.find_first_of("._"));
  return std::find(std::begin(kHardwareFactors), std::end(kHardwareFactors),
                   family) != std::end(kHardwareFactors);
}

bool IsSha256(std::string_view text) {
  return text.size() == kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= 100 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c > ' ' && c <= '~' && c != '/' && c != '\\';
         });
}

bool IsPackNoteName(std::string_view name) {
  return IsFileName(name) && IsNoteName(name) && !LocalNotes{}.Has(name);
}

absl::Status Wrong(std::string_view where, std::string_view expected,
                   std::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      Absl(where), ": expected ", Absl(expected), ", found ", Absl(found)));
}

absl::StatusOr<std::string> Text(const Json& object, const char* name,
                                 std::string_view where) {
  const Json& field = Field(object, name);
  if (field.is_string()) return field.get<std::string>();
  return Wrong(absl::StrCat(Absl(where), ".", name), "a text",
               field.type_name());
}

absl::StatusOr<int64_t> Size(const Json& object, std::string_view where) {
  const Json& field = Field(object, "bytes");
  if (field.is_number_unsigned() &&
      field.get<uint64_t>() <= uint64_t{kUstarMaxFileBytes}) {
    return field.get<int64_t>();
  }
  return Wrong(absl::StrCat(Absl(where), ".bytes"),
               absl::StrCat("a size of at most ", kUstarMaxFileBytes),
               field.is_number() ? JsonText(field) : field.type_name());
}

absl::StatusOr<std::string> Digest(const Json& object, std::string_view where) {
  ASSIGN_OR_RETURN(std::string digest, Text(object, "sha256", where));
  if (IsSha256(digest)) return digest;
  return Wrong(absl::StrCat(Absl(where), ".sha256"),
               "64 lower-case hexadecimal digits",
               absl::CHexEscape(digest.substr(0, kKeyDigits + 1)));
}

absl::StatusOr<KeyFactors> Factors(const Json& object, std::string_view where) {
  const Json& field = Field(object, "factors");
  const std::string path = absl::StrCat(Absl(where), ".factors");
  if (!field.is_object()) return Wrong(path, "an object", field.type_name());
  KeyFactors factors;
  for (const auto& [name, value] : field.items()) {
    if (!value.is_string()) {
      return Wrong(absl::StrCat(path, ".", absl::CHexEscape(name)), "a text",
                   value.type_name());
    }
    factors[name] = value.get<std::string>();
  }
  return factors;
}

// Of a manifest, where the time is "seconds", or of an element of "entries".
absl::StatusOr<PackEntry> ReadEntry(const Json& object, const char* seconds,
                                    std::string_view where) {
  ASSIGN_OR_RETURN(std::string key, Text(object, "key", where));
  ASSIGN_OR_RETURN(KeyFactors factors, Factors(object, where));
  if (const ArtifactKey actual(factors); actual.hex() != key) {
    return Wrong(absl::StrCat(Absl(where), ".key"),
                 absl::StrCat("that of its factors, ", actual.hex()),
                 absl::CHexEscape(key.substr(0, kKeyDigits + 1)));
  }
  ASSIGN_OR_RETURN(std::string model, Text(object, "model", where));
  ASSIGN_OR_RETURN(std::string bucket, Text(object, "bucket", where));
  const Json& time = Field(object, seconds);
  if (!time.is_number()) {
    return Wrong(absl::StrCat(Absl(where), ".", seconds), "a number",
                 time.type_name());
  }
  return PackEntry{.key = ArtifactKey::FromHex(std::move(key)),
                   .factors = std::move(factors),
                   .model = std::move(model),
                   .bucket = std::move(bucket),
                   .compile_seconds = time.get<double>()};
}

absl::StatusOr<PackMember> ReadMember(const Json& object,
                                      std::string_view where) {
  PackMember member;
  ASSIGN_OR_RETURN(member.name, Text(object, "name", where));
  ASSIGN_OR_RETURN(member.bytes, Size(object, where));
  ASSIGN_OR_RETURN(member.sha256, Digest(object, where));
  return member;
}

PackMember MemberOf(std::string name, std::string_view content) {
  return {.name = std::move(name),
          .bytes = static_cast<int64_t>(content.size()),
          .sha256 = Sha256Hex(content)};
}

bool NameLess(const PackMember& a, const PackMember& b) {
  return a.name < b.name;
}
bool KeyLess(const PackEntry& a, const PackEntry& b) { return a.key < b.key; }

// Adds the size of a note to `notes_bytes`.
absl::Status CheckMember(const PackIndex& index, const PackMember& member,
                         int64_t* notes_bytes) {
  const std::optional<PackPlace> place = ParsePackMemberName(member.name);
  const std::string where =
      absl::StrCat(Absl(kPackIndexName), ": member \"",
                   absl::CHexEscape(member.name.substr(0, 300)), "\"");
  if (!place.has_value()) {
    return Wrong(where, "a file of an entry or a note", "that name");
  }
  const PackEntry probe{.key = place->key};
  if (!std::binary_search(index.entries.begin(), index.entries.end(), probe,
                          KeyLess)) {
    return Wrong(where, "one of an entry of the pack", "one of another");
  }
  int64_t limit = kUstarMaxFileBytes;
  if (place->kind == PackPlace::Kind::kNote) {
    limit = kMaxPackNotesBytes - *notes_bytes;
    *notes_bytes += member.bytes;
  } else if (place->name == kManifestName) {
    limit = kMaxPackManifestBytes;
  }
  if (member.bytes >= 0 && member.bytes <= limit) return absl::OkStatus();
  return Wrong(where, absl::StrCat("at most ", limit, " bytes"),
               absl::StrCat(member.bytes));
}

}  // namespace

PackHardware HardwareOf(const std::vector<PackEntry>& entries) {
  PackHardware hardware;
  for (const PackEntry& entry : entries) {
    for (const auto& [name, value] : entry.factors) {
      if (IsHardware(name)) hardware[name].insert(value);
    }
  }
  return hardware;
}

bool LocalNotes::Has(std::string_view note) const {
  return note == EntryStore::kPinNote ||
         std::any_of(
             prefixes.begin(), prefixes.end(),
             [note](std::string_view p) { return note.starts_with(p); });
}

std::string PackEntryFileName(const ArtifactKey& key, std::string_view file) {
  return absl::StrCat(Absl(kEntries), key.hex().substr(0, 2), "/", key.hex(),
                      "/", Absl(file));
}

std::string PackNoteName(const ArtifactKey& key, std::string_view note) {
  return absl::StrCat(Absl(kNotes), key.hex(), "/", Absl(note));
}

std::optional<PackPlace> ParsePackMemberName(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash < kKeyDigits) {
    return std::nullopt;
  }
  const std::string_view last = name.substr(slash + 1);
  PackPlace place{.key = ArtifactKey::FromHex(
                      std::string(name.substr(slash - kKeyDigits, kKeyDigits))),
                  .name = std::string(last)};
  if (place.key.hex().empty()) return std::nullopt;
  if (name == PackEntryFileName(place.key, last) && IsFileName(last)) {
    place.kind = PackPlace::Kind::kEntryFile;
    return place;
  }
  if (name == PackNoteName(place.key, last) && IsPackNoteName(last)) {
    place.kind = PackPlace::Kind::kNote;
    return place;
  }
  return std::nullopt;
}

absl::StatusOr<PackEntry> DescribeEntry(const ArtifactKey& key,
                                        std::string_view manifest_json) {
  const Json manifest = ReadJson(manifest_json);
  const std::string where =
      absl::StrCat(Absl(kManifestName), " of ", key.hex());
  ASSIGN_OR_RETURN(PackEntry entry, ReadEntry(manifest, "seconds", where));
  if (entry.key == key) return entry;
  return Wrong(absl::StrCat(where, ".key"), key.hex(), entry.key.hex());
}

absl::StatusOr<std::vector<PackMember>> MembersOfEntry(
    const ArtifactKey& key, std::string_view manifest_json) {
  const Json manifest = ReadJson(manifest_json);
  const std::string where =
      absl::StrCat(Absl(kManifestName), " of ", key.hex(), ".files");
  const Json& files = Field(manifest, "files");
  if (!files.is_object() || files.empty()) {
    return Wrong(where, "at least one file", files.type_name());
  }
  std::vector<PackMember> members;
  for (const auto& [name, file] : files.items()) {
    if (!IsFileName(name) || name == kManifestName || name == kSealName) {
      return Wrong(where, "names of files beside it",
                   absl::StrCat("\"", absl::CHexEscape(name), "\""));
    }
    PackMember member{.name = PackEntryFileName(key, name)};
    ASSIGN_OR_RETURN(member.bytes, Size(file, where));
    ASSIGN_OR_RETURN(member.sha256, Digest(file, where));
    members.push_back(std::move(member));
  }
  members.push_back(
      MemberOf(PackEntryFileName(key, kManifestName), manifest_json));
  members.push_back(
      MemberOf(PackEntryFileName(key, kSealName), SealOf(manifest_json)));
  std::sort(members.begin(), members.end(), NameLess);
  return members;
}

absl::Status CheckPackIndex(const PackIndex& index) {
  const auto out_of_order = [](const auto& values, auto less) {
    const auto not_less = [&less](const auto& a, const auto& b) {
      return !less(a, b);
    };
    return std::adjacent_find(values.begin(), values.end(), not_less) !=
           values.end();
  };
  if (index.entries.empty()) {
    return Wrong(kPackIndexName, "at least one entry", "none");
  }
  if (out_of_order(index.entries, KeyLess)) {
    return Wrong(kPackIndexName, "entries by key, each once", "another order");
  }
  if (out_of_order(index.members, NameLess)) {
    return Wrong(kPackIndexName, "members by name, each once", "another order");
  }
  int64_t notes_bytes = 0;
  for (const PackMember& member : index.members) {
    RETURN_IF_ERROR(CheckMember(index, member, &notes_bytes));
  }
  for (const PackEntry& entry : index.entries) {
    const PackMember probe{.name = PackEntryFileName(entry.key, kManifestName)};
    if (!std::binary_search(index.members.begin(), index.members.end(), probe,
                            NameLess)) {
      return Wrong(kPackIndexName, absl::StrCat("member ", probe.name),
                   "none of that name");
    }
  }
  return absl::OkStatus();
}

std::string PackIndexJson(const PackIndex& index) {
  Json entries = Json::array();
  for (const PackEntry& entry : index.entries) {
    entries.push_back({{"key", entry.key.hex()},
                       {"factors", entry.factors},
                       {"model", entry.model},
                       {"bucket", entry.bucket},
                       {"compile_seconds", entry.compile_seconds}});
  }
  Json members = Json::array();
  for (const PackMember& member : index.members) {
    members.push_back({{"name", member.name},
                       {"bytes", member.bytes},
                       {"sha256", member.sha256}});
  }
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"hardware", HardwareOf(index.entries)},
                     {"entries", std::move(entries)},
                     {"members", std::move(members)}};
  return JsonText(json);
}

absl::StatusOr<PackIndex> ParsePackIndex(std::string_view json) {
  const Json parsed = ReadJson(json);
  if (Field(parsed, "format") != kFormat) {
    return Wrong(kPackIndexName, absl::StrCat("format \"", kFormat, "\""),
                 "another, or no JSON object");
  }
  if (Field(parsed, "version") != kVersion) {
    const Json& version = Field(parsed, "version");
    return Wrong(kPackIndexName, absl::StrCat("version ", kVersion),
                 version.is_number() ? JsonText(version) : version.type_name());
  }
  const Json& entries = Field(parsed, "entries");
  const Json& members = Field(parsed, "members");
  if (!entries.is_array() || !members.is_array()) {
    return Wrong(
        kPackIndexName, "arrays \"entries\" and \"members\"",
        absl::StrCat(entries.type_name(), " and ", members.type_name()));
  }
  PackIndex index;
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSIGN_OR_RETURN(
        PackEntry entry,
        ReadEntry(entries[i], "compile_seconds",
                  absl::StrCat(Absl(kPackIndexName), ": entries.", i)));
    index.entries.push_back(std::move(entry));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    ASSIGN_OR_RETURN(PackMember member,
                     ReadMember(members[i], absl::StrCat(Absl(kPackIndexName),
                                                         ": members.", i)));
    index.members.push_back(std::move(member));
  }
  RETURN_IF_ERROR(CheckPackIndex(index));
  if (PackIndexJson(index) != json) {
    return Wrong(kPackIndexName, "the canonical text of its content",
                 "another text, or further fields");
  }
  return index;
}

int64_t PackBytes(const PackIndex& index, int64_t index_bytes,
                  std::optional<int64_t> signature_bytes) {
  const auto member_bytes = [](int64_t bytes) {
    return static_cast<int64_t>(kUstarBlockBytes + UstarPadding(bytes)) + bytes;
  };
  int64_t total =
      static_cast<int64_t>(kUstarEndBytes) + member_bytes(index_bytes);
  if (signature_bytes.has_value()) total += member_bytes(*signature_bytes);
  for (const PackMember& member : index.members) {
    total += member_bytes(member.bytes);
  }
  return total;
}

}  // namespace stoker
