#include "kernel_cache/kernel_cache.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/status_macros.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/json_field.h"
#include "kernel_cache/staging_area.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

using Result = EntryCheck::Result;

// Damaged entries that are kept per key: enough to see a pattern, too few to
// fill a disk.
constexpr int kKeptInQuarantine = 3;
// Another daemon may publish or set aside the same entry between two of our
// steps; more often than this in a row something else is wrong.
constexpr int kMaxPublishAttempts = 4;

constexpr const char* kFolders[] = {"entries", "staging", "quarantine", "locks",
                                    "notes",   "traffic", "scratch"};

absl::Status NoteNameError(std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(
      "note name \"", Absl(name), "\", expected [a-z0-9_-][a-z0-9._-]*"));
}

absl::Status CheckTrafficName(std::string_view model) {
  const bool valid =
      !model.empty() && std::all_of(model.begin(), model.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("traffic of a model named \"", Absl(model), "\""));
}

absl::StatusOr<std::string> ReadAtMost(Files& files, const std::string& path,
                                       int64_t most) {
  ASSIGN_OR_RETURN(const int64_t bytes, files.Size(path));
  if (bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", most, " bytes, got ", bytes));
  }
  return files.Read(path);
}

absl::Status EmptyKeyError() {
  return absl::InvalidArgumentError("kernel cache: the artifact key is empty");
}

}  // namespace

struct KernelCache::Impl {
  Impl(std::vector<CacheLayer> all, Files& f, MetricRegistry& m,
       RecentRefusals* r)
      : layers(std::move(all)),
        top(layers.front()),
        home(top.home()),
        files(f),
        metrics(m),
        refusals(r),
        staging(absl::StrCat(home, "/staging"), f) {}

  absl::Status CheckRoot(const std::string& root) const;
  absl::Status MakeRoot();

  std::string LockPath(const ArtifactKey& key, const char* suffix) const {
    return absl::StrCat(home, "/locks/", key.hex(), suffix);
  }
  // Null when there is none to be had.
  std::shared_ptr<const FileLock> Lease(const ArtifactKey& key) const;

  CacheEntry Found(const ArtifactKey& key, EntryCheck check, int layer,
                   std::shared_ptr<const FileLock> lease);
  std::optional<CacheEntry> LookupIn(int layer, const ArtifactKey& key,
                                     bool& damaged);
  EntryCheck SetAsideIfBad(const ArtifactKey& key);
  absl::Status MoveToQuarantine(const ArtifactKey& key, std::string_view label,
                                std::string_view reason);
  absl::StatusOr<CacheEntry> Publish(const ArtifactKey& key,
                                     const std::string& staging_folder,
                                     EntryCheck staged);
  bool EvictOne(const Eviction& eviction);
  // Of a small file below `home`. Its folder is made where it is missing.
  absl::Status Replace(const std::string& folder, std::string_view name,
                       std::string_view bytes);

  bool IsMasked(int layer, const ArtifactKey& key) {
    absl::MutexLock lock(&mu);
    return masked.contains({layer, key});
  }
  void CountRequest(std::string_view layer, std::string_view result) {
    metrics
        .Counter(metric::kCacheRequests, {{"layer", std::string(layer)},
                                          {"result", std::string(result)}})
        .Add();
  }
  void NoteRejection(const ArtifactKey& key, std::string_view label,
                     std::string_view reason) {
    metrics.Counter(metric::kCacheRejections, {{"reason", std::string(label)}})
        .Add();
    if (refusals != nullptr) refusals->Add("cache", key.Short(), label, reason);
  }
  void CountCommit(const char* result) {
    metrics.Counter(metric::kCacheCommits, {{"result", result}}).Add();
  }

  const std::vector<CacheLayer> layers;  // the root first
  const CacheLayer& top;
  const std::string home;  // <root>/v1

  Files& files;
  MetricRegistry& metrics;
  RecentRefusals* const refusals;  // may be null
  StagingArea staging;
  absl::Status writable;  // written by Open only

  absl::Mutex mu;
  // Entries of layers that could not be opened or run.
  std::set<std::pair<int, ArtifactKey>> masked ABSL_GUARDED_BY(mu);
};

namespace {

std::string_view LayerLabel(int layer) {
  return layer == 0 ? "upper" : "lower";
}

// What the compile took, as its manifest says.
double CompileSeconds(const std::string& manifest_json) {
  const auto manifest =
      nlohmann::json::parse(manifest_json, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json& seconds = Field(manifest, "seconds");
  return seconds.is_number() ? std::max(seconds.get<double>(), 0.0) : 0;
}

}  // namespace

std::shared_ptr<const FileLock> KernelCache::Impl::Lease(
    const ArtifactKey& key) const {
  auto lock = files.TryShare(LockPath(key, ".use"));
  return lock.ok() ? *std::move(lock) : nullptr;
}

CacheEntry KernelCache::Impl::Found(const ArtifactKey& key, EntryCheck check,
                                    int layer,
                                    std::shared_ptr<const FileLock> lease) {
  const double compile_seconds = CompileSeconds(check.manifest_json);
  return {.key = key,
          .folder = layers[static_cast<size_t>(layer)].EntryFolder(key),
          .manifest_json = std::move(check.manifest_json),
          .compile_seconds = compile_seconds,
          .bytes = check.bytes,
          .layer = layer,
          .verified = std::move(check.verified),
          .lease = std::move(lease)};
}

// Moves the entry to quarantine. The caller holds the key's .move lock.
absl::Status KernelCache::Impl::MoveToQuarantine(const ArtifactKey& key,
                                                 std::string_view label,
                                                 std::string_view reason) {
  std::string target;
  for (int n = 0; n < kKeptInQuarantine; ++n) {
    target = absl::StrCat(home, "/quarantine/", key.hex(), ".", n);
    if (absl::IsNotFound(files.Stat(target).status())) break;
    if (n == kKeptInQuarantine - 1) RETURN_IF_ERROR(files.Remove(target));
  }
  RETURN_IF_ERROR(files.Remove(top.NotesFolder(key)));
  RETURN_IF_ERROR(files.Rename(top.EntryFolder(key), target));
  NoteRejection(key, label, reason);
  spdlog::warn("cache entry {} set aside in {}: {}", key.Short(), target,
               reason);
  return files.Write(absl::StrCat(target, "/reason.txt"),
                     absl::StrCat(Absl(reason), "\n"));
}

// Looks at an entry that was found bad once more, now with the key's .move
// lock, and sets it aside if it still is: another daemon may have replaced it
// meanwhile, and a good entry must not pay for a bad one's report. Returns what
// was found.
EntryCheck KernelCache::Impl::SetAsideIfBad(const ArtifactKey& key) {
  const absl::StatusOr<std::unique_ptr<FileLock>> lock =
      files.TryLock(LockPath(key, ".move"));
  if (!lock.ok()) {
    spdlog::warn("cache entry {} is damaged and stays where it is: {}",
                 key.Short(), std::string(lock.status().message()));
    return {.result = Result::kUnreadable,
            .detail = std::string(lock.status().message())};
  }
  if (*lock == nullptr) {
    return {.result = Result::kUnreadable,
            .detail = "it is being set aside by somebody else"};
  }
  EntryCheck check = top.Check(key);
  if (check.result != Result::kDamaged && check.result != Result::kUnreadable) {
    return check;
  }
  const std::string_view label =
      check.result == Result::kDamaged ? check.reason : "checksum";
  const absl::Status moved = MoveToQuarantine(key, label, check.detail);
  if (!moved.ok()) {
    spdlog::warn("cache entry {} is damaged ({}): {}", key.Short(),
                 check.detail, std::string(moved.message()));
  }
  return check;
}

absl::StatusOr<CacheEntry> KernelCache::Impl::Publish(
    const ArtifactKey& key, const std::string& staging_folder,
    EntryCheck staged) {
  RETURN_IF_ERROR(
      files.Write(absl::StrCat(staging_folder, "/", Absl(kSealName)),
                  SealOf(staged.manifest_json)));
  RETURN_IF_ERROR(files.SyncTree(staging_folder));
  const std::string folder = top.EntryFolder(key);
  std::shared_ptr<const FileLock> lease = Lease(key);
  std::string obstacle;
  for (int attempt = 0; attempt < kMaxPublishAttempts; ++attempt) {
    EntryCheck existing = top.Check(key);
    if (existing.result == Result::kGood) {
      staging.Release(staging_folder);
      CountCommit("duplicate");
      return Found(key, std::move(existing), 0, std::move(lease));
    }
    if (existing.result != Result::kAbsent) {
      obstacle = SetAsideIfBad(key).detail;
      continue;
    }
    RETURN_IF_ERROR(files.MakeFolders(
        absl::StrCat(home, "/entries/", key.hex().substr(0, 2))));
    const absl::Status renamed = files.Rename(staging_folder, folder);
    if (absl::IsAlreadyExists(renamed)) {
      obstacle = std::string(renamed.message());
      continue;  // another daemon was faster
    }
    RETURN_IF_ERROR(renamed);
    staging.Release(staging_folder);
    CountCommit("ok");
    metrics.Gauge(metric::kCacheEntries).Add(1);
    metrics.Gauge(metric::kCacheBytes).Add(static_cast<double>(staged.bytes));
    spdlog::info("cache entry {} committed: {} bytes", key.Short(),
                 staged.bytes);
    return Found(key, std::move(staged), 0, std::move(lease));
  }
  return absl::UnavailableError(absl::StrCat(
      "commit of ", key.hex(), ": a bad entry is in the way: ", obstacle));
}

// Everything that is written lies below folders of our own.
absl::Status KernelCache::Impl::CheckRoot(const std::string& root) const {
  std::vector<std::string> folders = {root, home};
  for (const char* name : kFolders) {
    folders.push_back(absl::StrCat(home, "/", name));
  }
  for (const std::string& folder : folders) {
    if (absl::IsNotFound(files.Stat(folder).status())) continue;
    RETURN_IF_ERROR(top.CheckOwner(folder, /*root_may_own=*/false));
  }
  return absl::OkStatus();
}

absl::Status KernelCache::Impl::MakeRoot() {
  for (const char* name : kFolders) {
    RETURN_IF_ERROR(files.MakeFolders(absl::StrCat(home, "/", name)));
  }
  return absl::OkStatus();
}

namespace {

// Links are followed once, here.
absl::StatusOr<std::string> RealPath(const std::string& path) {
  std::error_code error;
  std::string real = std::filesystem::weakly_canonical(path, error);
  if (error) {
    return ErrnoStatus(error.value(), absl::StrCat("kernel cache ", path));
  }
  return real;
}

absl::StatusOr<CacheLayer> OpenLayer(const std::string& path, Files& files) {
  ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  CacheLayer layer(real, files);
  const std::string entries = absl::StrCat(layer.home(), "/entries");
  if (!files.Stat(entries).ok()) {
    return absl::NotFoundError(absl::StrCat(
        "kernel cache layer ", path, ": expected a folder v1/entries in it"));
  }
  for (const std::string& folder : {real, layer.home(), entries}) {
    RETURN_IF_ERROR(layer.CheckOwner(folder, /*root_may_own=*/true));
  }
  return layer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelCache>> KernelCache::Open(
    const KernelCacheOptions& options, Files& files, MetricRegistry& metrics) {
  ASSIGN_OR_RETURN(const std::string root, RealPath(options.root));
  std::vector<CacheLayer> layers = {CacheLayer(root, files)};
  for (const std::string& path : options.layers) {
    ASSIGN_OR_RETURN(CacheLayer layer, OpenLayer(path, files));
    layers.push_back(std::move(layer));
  }
  auto impl = std::make_unique<Impl>(std::move(layers), files, metrics,
                                     options.refusals);
  // Before anything is made below it, and once more what was made.
  RETURN_IF_ERROR(impl->CheckRoot(root));
  const absl::Status made = impl->MakeRoot();
  RETURN_IF_ERROR(impl->CheckRoot(root));
  if (!absl::IsPermissionDenied(made) && !absl::IsResourceExhausted(made)) {
    RETURN_IF_ERROR(made);  // a mistake rather than a state of the disk
  }
  if (!made.ok()) {
    spdlog::warn("kernel cache {} can't be written, nothing is compiled: {}",
                 root, std::string(made.message()));
    impl->writable = absl::UnavailableError(made.message());
  } else if (const absl::Status removed = impl->staging.RemoveOwnerless();
             !removed.ok()) {
    spdlog::warn("kernel cache {}: left-over staging folders stay: {}",
                 impl->home, std::string(removed.message()));
  }
  metrics.Gauge(metric::kCacheWritable).Set(impl->writable.ok() ? 1 : 0);
  return std::unique_ptr<KernelCache>(new KernelCache(std::move(impl)));
}

KernelCache::KernelCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KernelCache::~KernelCache() = default;

const absl::Status& KernelCache::writable() const { return impl_->writable; }

std::optional<CacheEntry> KernelCache::Impl::LookupIn(int layer,
                                                      const ArtifactKey& key,
                                                      bool& damaged) {
  if (IsMasked(layer, key)) return std::nullopt;
  const CacheLayer& in = layers[static_cast<size_t>(layer)];
  std::shared_ptr<const FileLock> lease = layer == 0 ? Lease(key) : nullptr;
  EntryCheck check = in.Check(key);
  const bool was_damaged = check.result == Result::kDamaged;
  if (check.result == Result::kUnreadable) {
    spdlog::warn("cache entry {} can't be read: {}", key.Short(), check.detail);
  }
  if (was_damaged && layer == 0) check = SetAsideIfBad(key);
  if (was_damaged && layer != 0) {
    NoteRejection(key, check.reason, check.detail);
    spdlog::warn("cache entry {} of layer {} is passed over: {}", key.Short(),
                 in.home(), check.detail);
  }
  if (check.result == Result::kGood) {
    CountRequest(LayerLabel(layer), "hit");
    // Layers are somebody else's; the root may be read-only.
    if (layer == 0) in.MarkUsed(key).IgnoreError();
    return Found(key, std::move(check), layer, std::move(lease));
  }
  if (was_damaged) CountRequest(LayerLabel(layer), "damaged");
  damaged |= was_damaged;
  return std::nullopt;
}

std::optional<CacheEntry> KernelCache::Lookup(const ArtifactKey& key) {
  if (key.hex().empty()) return std::nullopt;
  bool damaged = false;
  for (size_t i = 0; i < impl_->layers.size(); ++i) {
    auto entry = impl_->LookupIn(static_cast<int>(i), key, damaged);
    if (!entry.has_value()) continue;
    impl_->metrics.Counter(metric::kCompileSecondsSaved)
        .Add(entry->compile_seconds);
    return entry;
  }
  if (!damaged) impl_->CountRequest("", "miss");
  return std::nullopt;
}

void KernelCache::Quarantine(const CacheEntry& entry, std::string_view reason) {
  const ArtifactKey& key = entry.key;
  if (key.hex().empty()) return;
  if (entry.layer != 0) {
    impl_->NoteRejection(key, "open", reason);
    spdlog::warn("cache entry {} of layer {} is unusable: {}", key.Short(),
                 layers()[static_cast<size_t>(entry.layer)].home(), reason);
    absl::MutexLock lock(&impl_->mu);
    impl_->masked.insert({entry.layer, key});
    return;
  }
  const auto lock = impl_->files.TryLock(impl_->LockPath(key, ".move"));
  absl::Status moved = lock.status();
  if (moved.ok()) {
    if (*lock == nullptr) return;  // somebody else is setting it aside
    moved = impl_->MoveToQuarantine(key, "open", reason);
  }
  if (!moved.ok() && !absl::IsNotFound(moved)) {
    spdlog::warn("cache entry {} is unusable ({}): {}", key.Short(), reason,
                 std::string(moved.message()));
    absl::MutexLock masks(&impl_->mu);
    impl_->masked.insert({0, key});
  }
}

absl::StatusOr<std::unique_ptr<FileLock>> KernelCache::TryLock(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(impl_->writable);
  return impl_->files.TryLock(impl_->LockPath(key, ""));
}

absl::StatusOr<std::string> KernelCache::NewStagingFolder(
    const ArtifactKey& key) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(impl_->writable);
  return impl_->staging.NewFolder(key.Short());
}

absl::StatusOr<CacheEntry> KernelCache::Commit(
    const ArtifactKey& key, const std::string& staging_folder) {
  absl::StatusOr<CacheEntry> entry = [&]() -> absl::StatusOr<CacheEntry> {
    if (key.hex().empty()) return EmptyKeyError();
    if (!impl_->staging.Owns(staging_folder)) {
      return absl::FailedPreconditionError(
          absl::StrCat("commit of ", key.hex(), ": ", staging_folder,
                       " is no staging folder of this cache"));
    }
    EntryCheck staged =
        CheckEntry(impl_->files, staging_folder, key, EntryKind::kStaged);
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
    return impl_->Publish(key, staging_folder, std::move(staged));
  }();
  if (!entry.ok()) impl_->CountCommit("failed");
  return entry;
}

void KernelCache::Abandon(const std::string& staging_folder) {
  impl_->staging.Release(staging_folder);
}

absl::Status KernelCache::Impl::Replace(const std::string& folder,
                                        std::string_view name,
                                        std::string_view bytes) {
  ASSIGN_OR_RETURN(const std::string staged, staging.NewFolder("note"));
  const std::string draft = absl::StrCat(staged, "/draft");
  absl::Status done = files.Write(draft, bytes);
  if (done.ok()) done = files.MakeFolders(folder);
  if (done.ok()) {
    done = files.Rename(draft, absl::StrCat(folder, "/", Absl(name)));
  }
  staging.Release(staged);
  return done;
}

absl::Status KernelCache::WriteNote(const ArtifactKey& key,
                                    std::string_view name,
                                    std::string_view bytes) {
  if (key.hex().empty()) return EmptyKeyError();
  if (!IsNoteName(name)) return NoteNameError(name);
  RETURN_IF_ERROR(impl_->writable);
  return impl_->Replace(impl_->top.NotesFolder(key), name, bytes);
}

std::optional<std::string> KernelCache::ReadNote(const ArtifactKey& key,
                                                 std::string_view name) const {
  if (key.hex().empty() || !IsNoteName(name)) return std::nullopt;
  for (const CacheLayer& layer : impl_->layers) {
    absl::StatusOr<std::string> note = layer.ReadNote(key, name);
    if (note.ok()) return *std::move(note);
    if (!absl::IsNotFound(note.status())) {
      spdlog::warn("note {} of {}: {}", name, key.Short(),
                   std::string(note.status().message()));
    }
  }
  return std::nullopt;
}

absl::Status KernelCache::RemoveNote(const ArtifactKey& key,
                                     std::string_view name) {
  if (key.hex().empty()) return EmptyKeyError();
  RETURN_IF_ERROR(impl_->writable);
  if (!IsNoteName(name)) return NoteNameError(name);
  return impl_->files.Remove(
      absl::StrCat(impl_->top.NotesFolder(key), "/", Absl(name)));
}

std::vector<std::string> KernelCache::NoteNames(const ArtifactKey& key) const {
  std::set<std::string> names;
  for (const CacheLayer& layer : impl_->layers) {
    const std::vector<std::string> some = layer.NoteNames(key);
    names.insert(some.begin(), some.end());
  }
  return {names.begin(), names.end()};
}

const std::vector<CacheLayer>& KernelCache::layers() const {
  return impl_->layers;
}

std::vector<ArtifactKey> KernelCache::Keys() const {
  std::set<ArtifactKey> keys;
  for (const CacheLayer& layer : impl_->layers) {
    const std::vector<ArtifactKey> some = layer.Keys();
    keys.insert(some.begin(), some.end());
  }
  return {keys.begin(), keys.end()};
}

// Moved away first, so that nobody finds half an entry.
bool KernelCache::Impl::EvictOne(const Eviction& eviction) {
  const ArtifactKey& key = eviction.key;
  const auto nobody_uses = files.TryLock(LockPath(key, ".use"));
  if (!nobody_uses.ok() || *nobody_uses == nullptr) return false;
  if (!(*nobody_uses)->excludes()) return false;  // nobody can tell
  const auto may_move = files.TryLock(LockPath(key, ".move"));
  if (!may_move.ok() || *may_move == nullptr) return false;
  const auto folder = staging.NewFolder(key.Short());
  if (!folder.ok()) return false;
  absl::Status done =
      files.Rename(top.EntryFolder(key), absl::StrCat(*folder, "/evicted"));
  if (done.ok()) done = files.Remove(top.NotesFolder(key));
  staging.Release(*folder);
  if (!done.ok()) {
    spdlog::warn("cache entry {} could not be evicted: {}", key.Short(),
                 std::string(done.message()));
    return false;
  }
  for (const char* suffix : {"", ".use", ".move"}) {
    files.Remove(LockPath(key, suffix)).IgnoreError();
  }
  metrics
      .Counter(metric::kCacheEvictions,
               {{"reason", std::string(eviction.reason)}})
      .Add();
  spdlog::info("cache entry {} evicted: {}", key.Short(), eviction.reason);
  return true;
}

absl::Status KernelCache::WriteTraffic(std::string_view model,
                                       std::string_view bytes) {
  RETURN_IF_ERROR(CheckTrafficName(model));
  RETURN_IF_ERROR(impl_->writable);
  return impl_->Replace(absl::StrCat(impl_->home, "/traffic"),
                        std::string(model) + ".json", bytes);
}

absl::StatusOr<std::string> KernelCache::ReadTraffic(
    std::string_view model) const {
  RETURN_IF_ERROR(CheckTrafficName(model));
  for (const CacheLayer& layer : impl_->layers) {
    absl::StatusOr<std::string> text = ReadAtMost(
        impl_->files,
        absl::StrCat(layer.home(), "/traffic/", Absl(model), ".json"),
        kMaxTrafficBytes);
    if (!absl::IsNotFound(text.status())) return text;
  }
  return absl::NotFoundError(
      absl::StrCat("no traffic of model ", Absl(model), " was recorded"));
}

absl::Status KernelCache::WriteRequests(std::string_view model,
                                        std::string_view bytes) {
  RETURN_IF_ERROR(CheckTrafficName(model));
  RETURN_IF_ERROR(impl_->writable);
  return impl_->Replace(absl::StrCat(impl_->home, "/traffic"),
                        std::string(model) + ".safetensors", bytes);
}

absl::StatusOr<std::string> KernelCache::ReadRequests(
    std::string_view model) const {
  RETURN_IF_ERROR(CheckTrafficName(model));
  return ReadAtMost(
      impl_->files,
      absl::StrCat(impl_->home, "/traffic/", Absl(model), ".safetensors"),
      kMaxRequestsBytes);
}

void KernelCache::SetTrafficAside(std::string_view model,
                                  std::string_view reason) {
  if (!CheckTrafficName(model).ok()) return;
  const std::string path =
      absl::StrCat(impl_->home, "/traffic/", Absl(model), ".json");
  const absl::Status moved = impl_->files.Rename(path, path + ".damaged");
  spdlog::warn("{} {}: {}", path, moved.ok() ? "is set aside" : "can't be used",
               reason);
}

std::vector<EvictionCandidate> KernelCache::EvictionCandidates() const {
  std::vector<EvictionCandidate> candidates;
  const CacheLayer& top = impl_->top;
  for (const ArtifactKey& key : top.Keys()) {
    candidates.push_back({key, top.Bytes(key), top.LastUsed(key),
                          top.ReadNote(key, kPinNote).ok()});
  }
  return candidates;
}

CacheUse KernelCache::Evict(const CacheLimits& limits, absl::Time now) {
  CacheUse use;
  std::vector<EvictionCandidate> candidates = EvictionCandidates();
  for (const EvictionCandidate& candidate : candidates) {
    ++use.entries;
    use.bytes += candidate.bytes;
  }
  if (impl_->writable.ok()) {
    for (const Eviction& eviction :
         ChooseEvictions(std::move(candidates), limits, now)) {
      if (!impl_->EvictOne(eviction)) continue;
      ++use.evicted_entries;
      use.evicted_bytes += eviction.bytes;
    }
  }
  use.entries -= use.evicted_entries;
  use.bytes -= use.evicted_bytes;
  impl_->metrics.Gauge(metric::kCacheEntries)
      .Set(static_cast<double>(use.entries));
  impl_->metrics.Gauge(metric::kCacheBytes).Set(static_cast<double>(use.bytes));
  return use;
}

std::string KernelCache::scratch_folder() const {
  return absl::StrCat(impl_->home, "/scratch");
}

}  // namespace stoker
