#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_stream.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernel_cache/pack.h"
#include "kernel_cache/ustar.h"

namespace stoker {
namespace {

// Where the content of a member comes from.
struct Source {
  PackMember member;
  std::string path;     // the file to copy; empty:
  std::string content;  // these bytes
};

class ArchiveWriter {
 public:
  static absl::StatusOr<ArchiveWriter> CreateFor(const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path();
    ASSIGN_OR_RETURN(DraftFile draft,
                     DraftFile::CreateIn(parent.empty() ? "." : parent));
    return ArchiveWriter(std::move(draft));
  }

  absl::Status Add(std::string_view name, std::string_view content) {
    const auto bytes = static_cast<int64_t>(content.size());
    ASSIGN_OR_RETURN(const std::string header, UstarHeader(name, bytes));
    RETURN_IF_ERROR(draft_.Write(header));
    RETURN_IF_ERROR(draft_.Write(content));
    return draft_.Write(std::string(UstarPadding(bytes), '\0'));
  }

  absl::Status Add(const Source& source);

  absl::Status PublishAs(const std::string& path) {
    RETURN_IF_ERROR(draft_.Write(std::string(kUstarEndBytes, '\0')));
    return draft_.PublishAs(path);
  }

 private:
  explicit ArchiveWriter(DraftFile draft) : draft_(std::move(draft)) {}

  DraftFile draft_;
};

// Copies a file, and holds it once more to what the index says of it: that is
// already written.
absl::Status ArchiveWriter::Add(const Source& source) {
  const PackMember& member = source.member;
  if (source.path.empty()) return Add(member.name, source.content);
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(source.path));
  ASSIGN_OR_RETURN(const std::string header,
                   UstarHeader(member.name, member.bytes));
  RETURN_IF_ERROR(draft_.Write(header));
  Sha256 digest;
  const auto copy = [&](std::string_view piece) {
    digest.Add(piece);
    return draft_.Write(piece);
  };
  ASSIGN_OR_RETURN(const int64_t copied, file.ReadTo(copy));
  if (const std::string actual = digest.Hex();
      copied != member.bytes || actual != member.sha256) {
    return absl::AbortedError(absl::StrCat(source.path, " changed: expected ",
                                           member.bytes, " bytes with SHA-256 ",
                                           member.sha256, ", found ", copied,
                                           " with ", actual));
  }
  return draft_.Write(std::string(UstarPadding(member.bytes), '\0'));
}

absl::Status AddEntry(KernelCache& cache, const ArtifactKey& key,
                      const LocalNotes& local, PackIndex* index,
                      std::map<std::string, Source>* sources) {
  const std::optional<CacheEntry> entry = cache.entries().Lookup(key);
  if (!entry.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("the cache has no good entry ", key.hex()));
  }
  ASSIGN_OR_RETURN(PackEntry description,
                   DescribeEntry(key, entry->manifest_json));
  index->entries.push_back(std::move(description));
  ASSIGN_OR_RETURN(const std::vector<PackMember> members,
                   MembersOfEntry(key, entry->manifest_json));
  for (const PackMember& member : members) {
    // By name: one open folder per entry would be too many. Copying compares
    // the digest again.
    const std::string file = ParsePackMemberName(member.name)->name;
    (*sources)[member.name] = {.member = member,
                               .path = absl::StrCat(entry->folder, "/", file)};
  }
  for (const std::string& note : cache.facts().NoteNames(key)) {
    std::optional<std::string> content = cache.facts().ReadNote(key, note);
    if (local.Has(note) || !content.has_value()) continue;
    const std::string name = PackNoteName(key, note);
    (*sources)[name] = {
        .member = {.name = name,
                   .bytes = static_cast<int64_t>(content->size()),
                   .sha256 = Sha256Hex(*content)},
        .content = *std::move(content)};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackIndex> ExportPack(KernelCache& cache,
                                     std::vector<ArtifactKey> keys,
                                     const LocalNotes& local,
                                     const std::string& path,
                                     const SigningKey* signer) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  PackIndex index;
  std::map<std::string, Source> sources;
  for (const ArtifactKey& key : keys) {
    RETURN_IF_ERROR(AddEntry(cache, key, local, &index, &sources));
  }
  for (const auto& [name, source] : sources) {
    index.members.push_back(source.member);
  }
  RETURN_IF_ERROR(CheckPackIndex(index));
  const std::string json = PackIndexJson(index);
  if (json.size() > uint64_t{kMaxPackIndexBytes}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pack's index may have ", kMaxPackIndexBytes, " bytes, that of ",
        keys.size(), " entries has ", json.size(), ": make several packs"));
  }
  ASSIGN_OR_RETURN(ArchiveWriter archive, ArchiveWriter::CreateFor(path));
  RETURN_IF_ERROR(archive.Add(kPackIndexName, json));
  if (signer != nullptr) {
    ASSIGN_OR_RETURN(const std::string signature, SignedBy(*signer, json));
    RETURN_IF_ERROR(archive.Add(kPackSignatureName, signature));
  }
  for (const auto& [name, source] : sources) {
    RETURN_IF_ERROR(archive.Add(source));
  }
  RETURN_IF_ERROR(archive.PublishAs(path));
  return index;
}

}  // namespace stoker
