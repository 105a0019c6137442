#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/file_stream.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/pack.h"
#include "kernel_cache/pack_reader.h"

namespace stoker {
namespace {

// Commits wait for the disk most of the time.
constexpr size_t kCommitThreads = 4;

absl::Status PrefixedWith(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat("pack ", path, ": ", status.message())};
}

// Not durable, unlike Files': what is staged need not survive.
absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("create folder ", path));
}

struct Head {
  PackReader reader;
  PackSummary summary;
};

// Everything in front of the entries. The signature is judged before the index
// is parsed, so that by default only what a trusted key signed is parsed.
absl::StatusOr<Head> ReadHead(const std::string& path,
                              const std::vector<PublicKey>& trusted,
                              const SignaturePolicy* policy) {
  ASSIGN_OR_RETURN(PackReader reader, PackReader::Open(path));
  SignatureVerdict signature =
      CheckSignature(reader.index_json(), reader.signature(), trusted);
  if (policy != nullptr) {
    RETURN_IF_ERROR(PrefixedWith(path, Permit(*policy, signature)));
  }
  absl::StatusOr<PackIndex> index = ParsePackIndex(reader.index_json());
  RETURN_IF_ERROR(PrefixedWith(path, index.status()));
  RETURN_IF_ERROR(reader.CheckLength(*index));
  return Head{std::move(reader), {*std::move(index), std::move(signature)}};
}

// That no note is among them which says something about another machine.
absl::Status CheckNotes(const PackIndex& index, const LocalNotes& local) {
  for (const PackMember& member : index.members) {
    const PackPlace place = *ParsePackMemberName(member.name);
    if (place.kind != PackPlace::Kind::kNote || !local.Has(place.name)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Absl(kPackIndexName), ": member ", member.name,
        ": expected a note that may leave its cache, found another"));
  }
  return absl::OkStatus();
}

// One import: everything is staged in one folder (a staging folder, and with it
// a lock file held open, for each of thousands of entries would be too many),
// and moved to staging folders of their own to be committed.
class Import {
 public:
  Import(KernelCache& cache, const PackIndex& index)
      : entries_(cache.entries()), facts_(cache.facts()), index_(index) {}
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;
  ~Import() {
    if (!staging_.empty()) entries_.Abandon(staging_);
  }

  // Reads the whole pack. Nothing has landed afterwards.
  absl::Status Stage(PackReader& reader);
  // Lands what is staged.
  absl::Status Commit();
  ImportedPack Report(PackSummary summary) const;

 private:
  struct Incoming {
    // Digest of the manifest of the entry that the cache has; empty: none.
    std::string present;
    std::string manifest_sha256;
    std::map<std::string, std::string> notes;  // name → content
  };

  absl::Status StageMember(PackReader& reader, const PackMember& member);
  absl::Status CheckManifest(const PackEntry& entry,
                             std::string_view manifest) const;
  absl::StatusOr<CacheEntry> CommitEntry(const ArtifactKey& key);
  absl::Status CommitNotes(const ArtifactKey& key, const Incoming& incoming);
  absl::Status Land(const ArtifactKey& key);

  std::string EntryFolder(const ArtifactKey& key) const {
    return absl::StrCat(staging_, "/entry-", key.hex());
  }

  EntryStore& entries_;
  FactStore& facts_;
  const PackIndex& index_;
  std::string staging_;
  std::map<ArtifactKey, Incoming> incoming_;
};

absl::Status Import::Stage(PackReader& reader) {
  ASSIGN_OR_RETURN(staging_,
                   entries_.NewStagingFolder(index_.entries.front().key));
  for (const PackEntry& entry : index_.entries) {
    Incoming& incoming = incoming_[entry.key];
    if (const auto found = entries_.Lookup(entry.key); found.has_value()) {
      incoming.present = Sha256Hex(found->manifest_json);
    } else {
      RETURN_IF_ERROR(MakeFolder(EntryFolder(entry.key)));
    }
  }
  for (const PackMember& member : index_.members) {
    RETURN_IF_ERROR(StageMember(reader, member));
  }
  return reader.ReadEnd();
}

// Checks a member and writes it to the staging folder, unless it is a file of
// an entry that the cache has. Notes stay in memory: together they are small. A
// manifest is compared with the index as soon as it is there.
absl::Status Import::StageMember(PackReader& reader, const PackMember& member) {
  const PackPlace place = *ParsePackMemberName(member.name);
  Incoming& incoming = incoming_[place.key];
  const bool is_note = place.kind == PackPlace::Kind::kNote;
  const bool is_manifest = !is_note && place.name == kManifestName;
  std::string manifest;
  std::string* text = is_note ? &incoming.notes[place.name] : &manifest;
  std::optional<OutputFile> file;
  if (!is_note && incoming.present.empty()) {
    ASSIGN_OR_RETURN(file, OutputFile::Create(absl::StrCat(
                               EntryFolder(place.key), "/", place.name)));
  }
  RETURN_IF_ERROR(reader.ReadMember(member, [&](std::string_view piece) {
    if (is_note || is_manifest) *text += piece;
    return file.has_value() ? file->Write(piece) : absl::OkStatus();
  }));
  if (file.has_value()) RETURN_IF_ERROR(file->Close());
  if (!is_manifest) return absl::OkStatus();
  incoming.manifest_sha256 = member.sha256;
  const auto entry = std::lower_bound(
      index_.entries.begin(), index_.entries.end(), place.key,
      [](const PackEntry& e, const ArtifactKey& key) { return e.key < key; });
  return PrefixedWith(reader.path(), CheckManifest(*entry, manifest));
}

// Whether the index tells the truth about the entry: what it is, and which
// files belong to it.
absl::Status Import::CheckManifest(const PackEntry& entry,
                                   std::string_view manifest) const {
  ASSIGN_OR_RETURN(const PackEntry actual, DescribeEntry(entry.key, manifest));
  if (actual != entry) {
    return absl::InvalidArgumentError(absl::StrCat(
        Absl(kPackIndexName), ": entry ", entry.key.hex(),
        ": expected what its manifest says, found something else"));
  }
  ASSIGN_OR_RETURN(const std::vector<PackMember> expected,
                   MembersOfEntry(entry.key, manifest));
  const std::string prefix = PackEntryFileName(entry.key, "");
  const auto begin =
      std::lower_bound(index_.members.begin(), index_.members.end(), prefix,
                       [](const PackMember& m, const std::string& name) {
                         return m.name < name;
                       });
  const auto end = std::find_if(
      begin, index_.members.end(),
      [&prefix](const PackMember& m) { return !m.name.starts_with(prefix); });
  const auto [missing, other] =
      std::mismatch(expected.begin(), expected.end(), begin, end);
  if (missing == expected.end() && other == end) return absl::OkStatus();
  const PackMember& at = missing == expected.end() ? *other : *missing;
  return absl::InvalidArgumentError(
      absl::StrCat(Absl(kPackIndexName), ": member ", at.name,
                   ": expected the files of its manifest, found others"));
}

// Moves a staged entry to a staging folder of its own and commits that.
absl::StatusOr<CacheEntry> Import::CommitEntry(const ArtifactKey& key) {
  ASSIGN_OR_RETURN(const std::string folder, entries_.NewStagingFolder(key));
  absl::Cleanup abandon = [this, &folder] { entries_.Abandon(folder); };
  const std::string staged = EntryFolder(key);
  // Replaces the folder, which is empty.
  if (rename(staged.c_str(), folder.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename ", staged, " to ", folder));
  }
  return entries_.Commit(key, folder);
}

// Adds what the cache lacks of the notes.
absl::Status Import::CommitNotes(const ArtifactKey& key,
                                 const Incoming& incoming) {
  for (const auto& [name, content] : incoming.notes) {
    if (facts_.ReadNote(key, name).has_value()) continue;
    RETURN_IF_ERROR(facts_.WriteNote(key, name, content));
  }
  return absl::OkStatus();
}

absl::Status Import::Land(const ArtifactKey& key) {
  const Incoming& incoming = incoming_.at(key);
  std::string landed = incoming.present;
  if (landed.empty()) {
    ASSIGN_OR_RETURN(const CacheEntry entry, CommitEntry(key));
    landed = Sha256Hex(entry.manifest_json);
  }
  // A note is about one artifact; compilers don't make the same one twice.
  if (landed != incoming.manifest_sha256) return absl::OkStatus();
  return CommitNotes(key, incoming);
}

absl::Status Import::Commit() {
  const std::vector<PackEntry>& entries = index_.entries;
  std::vector<absl::Status> outcomes(entries.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (size_t i; !failed && (i = next++) < entries.size();) {
      outcomes[i] = Land(entries[i].key);
      if (!outcomes[i].ok()) failed = true;
    }
  };
  {
    const size_t count = std::min(kCommitThreads, entries.size());
    std::vector<Thread> threads(count);
    for (Thread& thread : threads) thread = Thread("import", work);
  }
  for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
}

ImportedPack Import::Report(PackSummary summary) const {
  ImportedPack imported{.index = std::move(summary.index),
                        .signature = std::move(summary.signature)};
  for (const auto& [key, incoming] : incoming_) {
    (incoming.present.empty() ? imported.committed : imported.present)
        .push_back(key);
  }
  return imported;
}

}  // namespace

absl::StatusOr<ImportedPack> ImportPack(KernelCache& cache,
                                        const std::string& path,
                                        const SignaturePolicy& policy,
                                        const LocalNotes& local) {
  ASSIGN_OR_RETURN(Head head, ReadHead(path, policy.trusted, &policy));
  RETURN_IF_ERROR(PrefixedWith(path, CheckNotes(head.summary.index, local)));
  Import import(cache, head.summary.index);
  RETURN_IF_ERROR(import.Stage(head.reader));
  RETURN_IF_ERROR(import.Commit());
  return import.Report(std::move(head.summary));
}

absl::StatusOr<PackSummary> ReadPackSummary(
    const std::string& path, const std::vector<PublicKey>& trusted) {
  ASSIGN_OR_RETURN(Head head, ReadHead(path, trusted, nullptr));
  return std::move(head.summary);
}

}  // namespace stoker
