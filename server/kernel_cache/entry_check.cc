#include "kernel_cache/entry_check.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Result = EntryCheck::Result;
using Json = nlohmann::json;

constexpr int kSchema = 1;

constexpr std::string_view kReasonManifest = "manifest";
constexpr std::string_view kReasonChecksum = "checksum";
constexpr std::string_view kReasonMissing = "missing_file";
constexpr std::string_view kReasonOwner = "owner";

struct ListedFile {
  int64_t bytes = 0;
  std::string sha256;
};
using ListedFiles = std::map<std::string, ListedFile>;

EntryCheck Damaged(std::string_view reason, std::string detail) {
  return {.result = Result::kDamaged,
          .reason = reason,
          .detail = std::move(detail)};
}

EntryCheck Unreadable(const absl::Status& status) {
  return {.result = Result::kUnreadable,
          .detail = std::string(status.message())};
}

// What an error while reading a file says about the entry.
EntryCheck ReadError(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return Unreadable(status);
  return Damaged(kReasonMissing, std::string(status.message()));
}

// Who may write to what was verified may change it afterwards.
EntryCheck CheckOwner(Files& files, const std::string& path,
                      FileInfo::Type type) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return ReadError(info.status());
  if (info->type != type) {
    return Damaged(kReasonMissing,
                   absl::StrCat(path, " is not a ",
                                type == FileInfo::Type::kFile ? "regular file"
                                                              : "folder"));
  }
  const absl::Status owned =
      CheckOnlyOwnerWrites(*info, path, /*root_may_own=*/true, "0700 or 0600");
  if (owned.ok()) return {.result = Result::kGood};
  return Damaged(kReasonOwner, std::string(owned.message()));
}

bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name != kManifestName &&
         name != kSealName;
}

// The field as text for a message; "nothing" when it is not there.
std::string Shown(const Json& object, const char* field) {
  const auto it = object.find(field);
  if (it == object.end()) return "nothing";
  return it->dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Empty when `json` is a manifest of `key`; fills `files` then.
std::string ParseManifest(const Json& json, const ArtifactKey& key,
                          ListedFiles* files) {
  if (!json.is_object()) return "is not a JSON object";
  if (json.value("schema", Json()) != kSchema) {
    return absl::StrCat("has schema ", Shown(json, "schema"), ", expected ",
                        kSchema);
  }
  if (json.value("key", Json()) != key.hex()) {
    return absl::StrCat("has key ", Shown(json, "key"), ", expected ",
                        key.hex());
  }
  const auto listed = json.find("files");
  if (listed == json.end() || !listed->is_object() || listed->empty()) {
    return absl::StrCat("has files ", Shown(json, "files"),
                        ", expected an object with at least one file");
  }
  for (const auto& [name, file] : listed->items()) {
    if (!IsPlainName(name)) {
      return absl::StrCat("lists ", JsonText(name),
                          ", expected the name of "
                          "a file beside it");
    }
    if (!file.is_object() ||
        !file.value("bytes", Json()).is_number_unsigned() ||
        !file.value("sha256", Json()).is_string()) {
      return absl::StrCat("lists ", name, " as ", Shown(*listed, name.c_str()),
                          ", expected bytes and sha256");
    }
    (*files)[name] = {file["bytes"].get<int64_t>(),
                      file["sha256"].get<std::string>()};
  }
  return "";
}

EntryCheck CheckFile(Files& files, const std::string& path,
                     const ListedFile& listed) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return ReadError(info.status());
  if (info->bytes != listed.bytes) {
    return Damaged(kReasonChecksum,
                   absl::StrCat(path, " has ", info->bytes, " bytes, expected ",
                                listed.bytes));
  }
  const absl::StatusOr<std::string> content = files.Read(path);
  if (!content.ok()) return ReadError(content.status());
  if (const std::string actual = Sha256Hex(*content); actual != listed.sha256) {
    return Damaged(kReasonChecksum, absl::StrCat(path, " has SHA-256 ", actual,
                                                 ", expected ", listed.sha256));
  }
  return {.result = Result::kGood, .bytes = info->bytes};
}

// Files that the manifest does not list would be code or data that nobody
// verified; of those that it lists, and itself, who may write to them.
EntryCheck CheckNothingElse(Files& files, const std::string& folder,
                            const ListedFiles& listed) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
  if (!names.ok()) return ReadError(names.status());
  for (const std::string& name : *names) {
    if (name != kManifestName && name != kSealName && !listed.contains(name)) {
      return Damaged(kReasonManifest, absl::StrCat(folder, "/", name,
                                                   " is not in the manifest"));
    }
    if (EntryCheck owned = CheckOwner(files, absl::StrCat(folder, "/", name),
                                      FileInfo::Type::kFile);
        owned.result != Result::kGood) {
      return owned;
    }
  }
  return {.result = Result::kGood};
}

EntryCheck CheckSeal(Files& files, const std::string& folder,
                     const std::string& manifest) {
  const std::string path = absl::StrCat(folder, "/", Absl(kSealName));
  const absl::StatusOr<std::string> seal = files.Read(path);
  if (!seal.ok()) return ReadError(seal.status());
  if (*seal != SealOf(manifest)) {
    return Damaged(kReasonManifest,
                   absl::StrCat(path, " does not fit the manifest"));
  }
  return {.result = Result::kGood};
}

EntryCheck CheckFolder(Files& files, const std::string& folder,
                       const ArtifactKey& key, EntryKind kind) {
  // The folder itself: the path leads to it by a link.
  if (EntryCheck owned = CheckOwner(files, absl::StrCat(folder, "/."),
                                    FileInfo::Type::kFolder);
      owned.result != Result::kGood) {
    return owned;
  }
  const std::string manifest_path =
      absl::StrCat(folder, "/", Absl(kManifestName));
  absl::StatusOr<std::string> manifest = files.Read(manifest_path);
  if (!manifest.ok()) return ReadError(manifest.status());
  if (kind == EntryKind::kCommitted) {
    EntryCheck seal = CheckSeal(files, folder, *manifest);
    if (seal.result != Result::kGood) return seal;
  }
  ListedFiles listed;
  const Json json = ReadJson(*manifest);
  if (const std::string fault = ParseManifest(json, key, &listed);
      !fault.empty()) {
    return Damaged(kReasonManifest, absl::StrCat(manifest_path, " ", fault));
  }
  EntryCheck extra = CheckNothingElse(files, folder, listed);
  if (extra.result != Result::kGood) return extra;
  auto bytes = static_cast<int64_t>(manifest->size() + SealOf("").size());
  for (const auto& [name, file] : listed) {
    EntryCheck check = CheckFile(files, absl::StrCat(folder, "/", name), file);
    if (check.result != Result::kGood) return check;
    bytes += check.bytes;
  }
  return {.result = Result::kGood,
          .manifest_json = *std::move(manifest),
          .bytes = bytes};
}

}  // namespace

std::string SealOf(std::string_view manifest_json) {
  return absl::StrCat(Sha256Hex(manifest_json), "  ", Absl(kManifestName),
                      "\n");
}

EntryCheck CheckEntry(Files& files, const std::string& folder,
                      const ArtifactKey& key, EntryKind kind) {
  absl::StatusOr<std::unique_ptr<OpenFolder>> held = files.Hold(folder);
  if (absl::IsNotFound(held.status())) return {.result = Result::kAbsent};
  if (!held.ok()) return Unreadable(held.status());
  const std::string& path = (*held)->path();
  EntryCheck check = CheckFolder(files, path, key, kind);
  // For people, the name that they know it by.
  absl::StrReplaceAll({{path, folder}}, &check.detail);
  if (check.result == Result::kGood) check.verified = *std::move(held);
  return check;
}

}  // namespace stoker
