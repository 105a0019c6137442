#include "kernel_cache/entry_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Result = EntryCheck::Result;

// Another daemon may publish or set aside the same entry between two of our
// steps; more often than this in a row something else is wrong.
constexpr int kMaxPublishAttempts = 4;

absl::Status EmptyKeyError() {
  return absl::InvalidArgumentError("kernel cache: the artifact key is empty");
}

// What the compile took, as its manifest says.
double CompileSeconds(const std::string& manifest_json) {
  const auto manifest = ReadJson(manifest_json);
  const nlohmann::json& seconds = Field(manifest, "seconds");
  return seconds.is_number() ? std::max(seconds.get<double>(), 0.0) : 0;
}

}  // namespace

ArtifactId CacheEntry::id() const { return {key, Sha256Hex(manifest_json)}; }

EntryStore::EntryStore(CacheRoot& root, FactStore& facts,
                       MetricRegistry& metrics, RecentRefusals* refusals)
    : root_(root),
      facts_(facts),
      removal_(root, facts),
      leftovers_(root),
      metrics_(metrics, refusals) {
  metrics_.SetWritable(writable().ok());
}

// ---- what is found ----

std::shared_ptr<const FileLock> EntryStore::Lease(
    const ArtifactKey& key) const {
  auto lock = root_.files().TryShare(root_.LockPath(key, Lock::kUse));
  return lock.ok() ? *std::move(lock) : nullptr;
}

CacheEntry EntryStore::Found(const ArtifactKey& key, EntryCheck check,
                             int layer,
                             std::shared_ptr<const FileLock> lease) const {
  const double compile_seconds = CompileSeconds(check.manifest_json);
  return {.key = key,
          .folder = layers()[static_cast<size_t>(layer)].EntryFolder(key),
          .manifest_json = std::move(check.manifest_json),
          .compile_seconds = compile_seconds,
          .bytes = check.bytes,
          .layer = layer,
          .verified = std::move(check.verified),
          .lease = std::move(lease)};
}

std::optional<CacheEntry> EntryStore::LookupIn(int layer,
                                               const ArtifactKey& key,
                                               bool& damaged) {
  const CacheLayer& in = layers()[static_cast<size_t>(layer)];
  std::shared_ptr<const FileLock> lease = layer == 0 ? Lease(key) : nullptr;
  EntryCheck check = in.Check(key);
  const bool was_damaged = check.result == Result::kDamaged;
  if (check.result == Result::kUnreadable) {
    log::Warn("cache entry {} can't be read: {}", key.Short(), check.detail);
  }
  if (was_damaged && layer == 0) check = SetAsideIfBad(key);
  if (was_damaged && layer != 0) {
    metrics_.Rejected(key, check.reason, check.detail);
    log::Warn("cache entry {} of layer {} is passed over: {}", key.Short(),
              in.home(), check.detail);
  }
  if (check.result == Result::kGood) {
    CacheEntry found = Found(key, std::move(check), layer, std::move(lease));
    if (IsMasked(layer, found.id())) return std::nullopt;
    // Layers are somebody else's; the root may be read-only.
    if (layer == 0) in.MarkUsed(key).IgnoreError();
    return found;
  }
  if (was_damaged) metrics_.Damaged(layer);
  damaged |= was_damaged;
  return std::nullopt;
}

std::optional<CacheEntry> EntryStore::Lookup(const ArtifactKey& key) {
  if (key.hex().empty()) return std::nullopt;
  bool damaged = false;
  for (size_t i = 0; i < layers().size(); ++i) {
    auto entry = LookupIn(static_cast<int>(i), key, damaged);
    if (!entry.has_value()) continue;
    metrics_.Hit(entry->layer, entry->compile_seconds);
    return entry;
  }
  if (!damaged) metrics_.Miss();
  return std::nullopt;
}

std::optional<ArtifactId> EntryStore::Identify(const ArtifactKey& key) {
  if (key.hex().empty()) return std::nullopt;
  for (size_t i = 0; i < layers().size(); ++i) {
    const auto manifest = layers()[i].ReadManifest(key);
    if (!manifest.ok()) continue;
    ArtifactId artifact{key, Sha256Hex(*manifest)};
    if (!IsMasked(static_cast<int>(i), artifact)) return artifact;
  }
  return std::nullopt;
}

std::vector<ArtifactKey> EntryStore::Keys() const {
  std::set<ArtifactKey> keys;
  for (const CacheLayer& layer : layers()) {
    const std::vector<ArtifactKey> some = layer.Keys();
    keys.insert(some.begin(), some.end());
  }
  return {keys.begin(), keys.end()};
}

// ---- what is set aside ----

// The caller holds the key's Lock::kMove.
absl::Status EntryStore::MoveToQuarantine(const ArtifactKey& key,
                                          std::string_view label,
                                          std::string_view reason) {
  ASSIGN_OR_RETURN(const std::string where, removal_.SetAside(key, reason));
  metrics_.Rejected(key, label, reason);
  log::Warn("cache entry {} set aside in {}: {}", key.Short(), where, reason);
  return absl::OkStatus();
}

// Looks at an entry that was found bad once more, now with the key's lock, and
// sets it aside if it still is: another daemon may have replaced it meanwhile,
// and a good entry must not pay for a bad one's report. Returns what was found.
EntryCheck EntryStore::SetAsideIfBad(const ArtifactKey& key) {
  const absl::StatusOr<std::unique_ptr<FileLock>> lock =
      root_.files().TryLock(root_.LockPath(key, Lock::kMove));
  if (!lock.ok()) {
    log::Warn("cache entry {} is damaged and stays where it is: {}",
              key.Short(), std::string(lock.status().message()));
    return {.result = Result::kUnreadable,
            .detail = std::string(lock.status().message())};
  }
  if (*lock == nullptr) {
    return {.result = Result::kUnreadable,
            .detail = "it is being set aside by somebody else"};
  }
  EntryCheck check = root_.top().Check(key);
  if (check.result != Result::kDamaged && check.result != Result::kUnreadable) {
    return check;
  }
  const std::string_view label =
      check.result == Result::kDamaged ? check.reason : "checksum";
  const absl::Status moved = MoveToQuarantine(key, label, check.detail);
  if (!moved.ok()) {
    log::Warn("cache entry {} is damaged ({}): {}", key.Short(), check.detail,
              std::string(moved.message()));
  }
  return check;
}

void EntryStore::Quarantine(const CacheEntry& entry, std::string_view reason) {
  const ArtifactKey& key = entry.key;
  if (key.hex().empty()) return;
  if (entry.layer != 0) {
    metrics_.Rejected(key, "open", reason);
    log::Warn("cache entry {} of layer {} is unusable: {}", key.Short(),
              layers()[static_cast<size_t>(entry.layer)].home(), reason);
    return Mask(entry.layer, entry.id());
  }
  const auto lock = root_.files().TryLock(root_.LockPath(key, Lock::kMove));
  absl::Status moved = lock.status();
  if (moved.ok()) {
    if (*lock == nullptr) return;  // somebody else is setting it aside
    // It names every byte of what was judged.
    const auto manifest = root_.top().ReadManifest(key);
    if (manifest.ok() && *manifest != entry.manifest_json) {
      log::Info("cache entry {} was replaced before it was set aside",
                key.Short());
      return;
    }
    moved = manifest.ok() ? MoveToQuarantine(key, "open", reason)
                          : manifest.status();
  }
  if (!moved.ok() && !absl::IsNotFound(moved)) {
    log::Warn("cache entry {} is unusable ({}): {}", key.Short(), reason,
              std::string(moved.message()));
    Mask(0, entry.id());
  }
}

bool EntryStore::IsMasked(int layer, const ArtifactId& artifact) {
  absl::MutexLock lock(&mu_);
  return masked_.contains({layer, artifact});
}

void EntryStore::Mask(int layer, const ArtifactId& artifact) {
  absl::MutexLock lock(&mu_);
  masked_.insert({layer, artifact});
}

// ---- what comes in ----

absl::StatusOr<std::unique_ptr<FileLock>> EntryStore::TryLock(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(writable());
  return root_.files().TryLock(root_.LockPath(key, Lock::kCompile));
}

absl::StatusOr<std::string> EntryStore::NewStagingFolder(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(writable());
  return root_.staging().NewFolder(key.Short());
}

absl::StatusOr<CacheEntry> EntryStore::Commit(
    const ArtifactKey& key, const std::string& staging_folder) {
  absl::StatusOr<CacheEntry> entry = CommitStaged(key, staging_folder);
  if (!entry.ok()) metrics_.CommitEnded("failed");
  return entry;
}

absl::StatusOr<CacheEntry> EntryStore::CommitStaged(
    const ArtifactKey& key, const std::string& staging_folder) {
  if (key.hex().empty()) return EmptyKeyError();
  if (!root_.staging().Owns(staging_folder)) {
    return absl::FailedPreconditionError(
        absl::StrCat("commit of ", key.hex(), ": ", staging_folder,
                     " is no staging folder of this cache"));
  }
  EntryCheck staged =
      CheckEntry(root_.files(), staging_folder, key, EntryKind::kStaged);
  if (staged.result == Result::kUnreadable) {
    return absl::InternalError(
        absl::StrCat("commit of ", key.hex(), ": ", staged.detail));
  }
  if (staged.result != Result::kGood) {
    return absl::FailedPreconditionError(absl::StrCat(
        "commit of ", key.hex(), ": ",
        staged.result == Result::kAbsent ? "the staging folder is gone"
                                         : staged.detail));
  }
  return Publish(key, staging_folder, std::move(staged));
}

absl::StatusOr<CacheEntry> EntryStore::Publish(
    const ArtifactKey& key, const std::string& staging_folder,
    EntryCheck staged) {
  Files& files = root_.files();
  RETURN_IF_ERROR(
      files.Write(absl::StrCat(staging_folder, "/", Absl(kSealName)),
                  SealOf(staged.manifest_json)));
  RETURN_IF_ERROR(files.SyncTree(staging_folder));
  const std::string folder = root_.top().EntryFolder(key);
  std::shared_ptr<const FileLock> lease = Lease(key);
  std::string obstacle;
  for (int attempt = 0; attempt < kMaxPublishAttempts; ++attempt) {
    EntryCheck existing = root_.top().Check(key);
    if (existing.result == Result::kGood) {
      root_.staging().Release(staging_folder);
      metrics_.CommitEnded("duplicate");
      return Found(key, std::move(existing), 0, std::move(lease));
    }
    if (existing.result != Result::kAbsent) {
      obstacle = SetAsideIfBad(key).detail;
      continue;
    }
    RETURN_IF_ERROR(files.MakeFolders(
        absl::StrCat(root_.Folder("entries"), "/", key.hex().substr(0, 2))));
    const absl::Status renamed = files.Rename(staging_folder, folder);
    if (absl::IsAlreadyExists(renamed)) {
      obstacle = std::string(renamed.message());
      continue;  // another daemon was faster
    }
    RETURN_IF_ERROR(renamed);
    root_.staging().Release(staging_folder);
    metrics_.Committed(staged.bytes);
    log::Info("cache entry {} committed: {} bytes", key.Short(), staged.bytes);
    return Found(key, std::move(staged), 0, std::move(lease));
  }
  return absl::UnavailableError(absl::StrCat(
      "commit of ", key.hex(), ": a bad entry is in the way: ", obstacle));
}

void EntryStore::Abandon(const std::string& staging_folder) {
  root_.staging().Release(staging_folder);
}

// ---- what goes ----

absl::Status EntryStore::SetPinned(const ArtifactKey& key, bool pinned) {
  return pinned ? facts_.WriteNote(key, kPinNote, "")
                : facts_.RemoveNote(key, kPinNote);
}

namespace {

// What the limits leave for entries beside `kept` bytes of what goes with them.
CacheLimits OfEntries(CacheLimits limits, int64_t kept) {
  if (limits.max_bytes > 0) {
    limits.max_bytes = std::max<int64_t>(1, limits.max_bytes - kept);
  }
  return limits;
}

}  // namespace

std::vector<EvictionCandidate> EntryStore::EvictionCandidates() const {
  std::vector<EvictionCandidate> candidates;
  const CacheLayer& top = root_.top();
  for (const ArtifactKey& key : top.Keys()) {
    candidates.push_back({key, top.Bytes(key), top.LastUsed(key),
                          top.ReadNote(key, kPinNote).ok()});
  }
  return candidates;
}

std::vector<Eviction> EntryStore::Evictions(const CacheLimits& limits,
                                            absl::Time now) const {
  const int64_t kept = limits.max_bytes > 0 ? leftovers_.Measure().kept : 0;
  return ChooseEvictions(EvictionCandidates(), OfEntries(limits, kept), now);
}

CacheUse EntryStore::Evict(const CacheLimits& limits, absl::Time now) {
  CacheUse use;
  std::vector<EvictionCandidate> candidates = EvictionCandidates();
  for (const EvictionCandidate& candidate : candidates) {
    ++use.entries;
    use.bytes += candidate.bytes;
  }
  const Leftovers::Use others = leftovers_.Measure();
  use.other_bytes = others.bytes();
  const int64_t excess = use.bytes + use.other_bytes - limits.max_bytes;
  if (writable().ok()) {
    if (limits.max_bytes > 0 && excess > 0) {
      use.other_bytes -= leftovers_.Trim(excess);
    }
    for (const Eviction& eviction : ChooseEvictions(
             std::move(candidates), OfEntries(limits, others.kept), now)) {
      if (!EvictOne(eviction)) continue;
      ++use.evicted_entries;
      use.evicted_bytes += eviction.bytes;
    }
  }
  use.entries -= use.evicted_entries;
  use.bytes -= use.evicted_bytes;
  metrics_.SetUse(use.entries, use.bytes, use.other_bytes);
  return use;
}

bool EntryStore::EvictOne(const Eviction& eviction) {
  const ArtifactKey& key = eviction.key;
  const CacheLayer& top = root_.top();
  const absl::Status done = removal_.RemoveUnused(key, [&]() -> absl::Status {
    // It has been used, or replaced, or pinned since it was chosen.
    if (top.LastUsed(key) == eviction.last_used &&
        !top.ReadNote(key, kPinNote).ok()) {
      return absl::OkStatus();
    }
    return absl::UnavailableError("it is not what it was");
  });
  if (done.ok()) {
    metrics_.Evicted(eviction.reason);
    log::Info("cache entry {} evicted: {}", key.Short(), eviction.reason);
  } else if (!absl::IsUnavailable(done)) {
    log::Warn("cache entry {} could not be evicted: {}", key.Short(),
              std::string(done.message()));
  }
  return done.ok();
}

absl::Status EntryStore::Remove(const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(writable());
  const CacheLayer& top = root_.top();
  return removal_.RemoveUnused(key, [&]() -> absl::Status {
    if (!root_.files().Stat(top.EntryFolder(key)).ok()) {
      return absl::NotFoundError(
          absl::StrCat("there is no entry ", key.Short(), " in ", top.home()));
    }
    if (!top.ReadNote(key, kPinNote).ok()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", key.Short(), " is pinned"));
  });
}

}  // namespace stoker
