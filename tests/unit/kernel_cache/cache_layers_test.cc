// A cache over layers that are only read: what is found where, what is masked,
// what goes when it has become too much.
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CacheLayersTest : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(const std::vector<std::string>& layers,
                                    Files& files = Files::Real()) {
    auto cache = KernelCache::Open(
        {.root = root_, .layers = layers, .refusals = &refusals_}, files,
        metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }

  static void Commit(KernelCache& cache, const ArtifactKey& key,
                     const ArtifactFiles& files = SmallArtifact()) {
    const std::string folder = *cache.entries().NewStagingFolder(key);
    StageArtifact(folder, key, files);
    const auto entry = cache.entries().Commit(key, folder);
    ASSERT_TRUE(entry.ok()) << entry.status();
  }

  // A layer with entries for the keys.
  std::string Layer(const std::string& name,
                    const std::vector<ArtifactKey>& keys,
                    const ArtifactFiles& files = SmallArtifact()) {
    const std::string root = folder_ / name;
    MetricRegistry metrics;
    const auto cache =
        *KernelCache::Open({.root = root}, Files::Real(), metrics);
    for (const ArtifactKey& key : keys) {
      Commit(*cache, key, files);
      EXPECT_TRUE(cache->facts().WriteNote(key, "verdict", name).ok());
    }
    return root;
  }

  double Lookups(const std::string& layer, const std::string& result) {
    return MetricValue(metrics_, "stoker_cache_requests_total",
                       {{"layer", layer}, {"result", result}});
  }

  TempFolder folder_{TempFolder::Where::kMemory};
  const std::string root_ = folder_ / "cache";
  MetricRegistry metrics_;
  RecentRefusals refusals_{Clock::Real()};
  const ArtifactKey key_{KeyFactors{{"graph", "g"}}};
  const ArtifactKey other_{KeyFactors{{"graph", "h"}}};
};

TEST_F(CacheLayersTest, LookupsFallThroughInOrder) {
  const std::string near = Layer("near", {key_});
  const std::string far = Layer("far", {key_, other_});
  const auto cache = Open({near, far});
  const std::optional<CacheEntry> first = cache->entries().Lookup(key_);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->layer, 1);
  EXPECT_EQ(first->folder, EntryFolderIn(fs::canonical(near), key_));
  EXPECT_EQ(cache->facts().ReadNote(key_, "verdict"), "near");
  const std::optional<CacheEntry> second = cache->entries().Lookup(other_);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->layer, 2);
  EXPECT_EQ(cache->facts().ReadNote(other_, "verdict"), "far");
  EXPECT_EQ(Lookups("lower", "hit"), 2);
  EXPECT_EQ(Lookups("upper", "hit"), 0);
  EXPECT_EQ(cache->entries().Keys().size(), 2u);
}

TEST_F(CacheLayersTest, NewEntriesAndNotesGoUp) {
  const std::string layer = Layer("layer", {key_});
  const auto cache = Open({layer});
  Commit(*cache, other_);
  ASSERT_TRUE(cache->facts().WriteNote(key_, "verdict", "ours").ok());
  EXPECT_TRUE(fs::exists(EntryFolderIn(root_, other_)));
  EXPECT_FALSE(fs::exists(EntryFolderIn(layer, other_)));
  EXPECT_EQ(cache->facts().ReadNote(key_, "verdict"), "ours");
  EXPECT_EQ(ReadBytes(layer + "/v1/notes/" + key_.hex() + "/verdict"), "layer");
  EXPECT_THAT(cache->facts().NoteNames(key_), ElementsAre("verdict"));
}

TEST_F(CacheLayersTest, DamageInALayerIsReportedAndPassedOver) {
  const std::string bad = Layer("bad", {key_});
  const std::string good = Layer("good", {key_});
  WriteBytes(EntryFolderIn(bad, key_) + "/model.so", "damaged");
  {
    const auto cache = Open({bad, good});
    EXPECT_EQ(cache->entries().Lookup(key_)->layer, 2);
    EXPECT_EQ(Lookups("lower", "damaged"), 1);
  }
  const auto cache = Open({bad});
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  ASSERT_EQ(refusals_.Read().size(), 2u);
  EXPECT_EQ(refusals_.Read()[0].of, key_.Short());
  // It is not ours to move, and a new one goes above it.
  EXPECT_TRUE(fs::exists(EntryFolderIn(bad, key_)));
  Commit(*cache, key_);
  EXPECT_EQ(cache->entries().Lookup(key_)->layer, 0);
}

// It was not the key that could not be opened.
TEST_F(CacheLayersTest, WhatTakesAMaskedEntrysPlaceIsNot) {
  const std::string layer = Layer("layer", {key_});
  const auto cache = Open({layer});
  EntryStore& entries = cache->entries();
  const CacheEntry bad = *entries.Lookup(key_);
  EXPECT_EQ(entries.Identify(key_), bad.id());
  entries.Quarantine(bad, "undefined symbol");
  EXPECT_EQ(entries.Identify(key_), std::nullopt);
  fs::remove_all(EntryFolderIn(layer, key_));
  EXPECT_EQ(entries.Lookup(key_), std::nullopt);
  const std::string other = Layer("other", {key_}, {{"model.so", "other"}});
  fs::rename(EntryFolderIn(other, key_), EntryFolderIn(layer, key_));
  const std::optional<CacheEntry> found = entries.Lookup(key_);
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->id(), bad.id());
  EXPECT_EQ(entries.Identify(key_), found->id());
}

TEST_F(CacheLayersTest, WhatCouldNotBeOpenedIsMasked) {
  const std::string layer = Layer("layer", {key_});
  const auto cache = Open({layer});
  cache->entries().Quarantine(*cache->entries().Lookup(key_),
                              "undefined symbol");
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  EXPECT_TRUE(fs::exists(EntryFolderIn(layer, key_)));
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_rejections_total",
                        {{"reason", "open"}}),
            1);
  ASSERT_EQ(refusals_.Read().size(), 1u);
  EXPECT_EQ(refusals_.Read()[0].reason, "undefined symbol");
  EXPECT_TRUE(Open({layer})->entries().Lookup(key_).has_value());
}

TEST_F(CacheLayersTest, LayersThatOthersMayWriteAreRefused) {
  const std::string layer = Layer("layer", {key_});
  for (const char* name : {"", "/v1", "/v1/entries"}) {
    const std::string folder = layer + name;
    ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
    const absl::Status status =
        KernelCache::Open({.root = root_, .layers = {layer}}, Files::Real(),
                          metrics_)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  }
  EXPECT_NE(Open({layer}), nullptr);
}

TEST_F(CacheLayersTest, ALayerWithoutACacheIsRefused) {
  const absl::Status status =
      KernelCache::Open({.root = root_, .layers = {folder_ / "nothing"}},
                        Files::Real(), metrics_)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

// The image's layer serves on a disk that can't be written.
TEST_F(CacheLayersTest, WithoutAWritableRootLayersAreReadAllTheSame) {
  const std::string layer = Layer("layer", {key_});
  FaultyFiles files(Files::Real());
  files.FailAllChanges(absl::PermissionDeniedError("read-only disk"));
  const auto cache = Open({layer}, files);
  EXPECT_EQ(cache->entries().writable().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_writable"), 0);
  const std::optional<CacheEntry> entry = cache->entries().Lookup(key_);
  ASSERT_TRUE(entry.has_value());
  EXPECT_TRUE(HoldsArtifact(entry->verified->path()));
  EXPECT_EQ(cache->entries().NewStagingFolder(other_).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(cache->entries().TryLock(other_).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(cache->facts().WriteNote(key_, "verdict", "x").code(),
            absl::StatusCode::kUnavailable);
}

// Somebody sets the entry aside and commits another one while it is being
// opened.
TEST_F(CacheLayersTest, AnEntryLeadsToTheFilesThatWereVerified) {
  const auto cache = Open({});
  Commit(*cache, key_);
  const CacheEntry entry = *cache->entries().Lookup(key_);
  fs::rename(EntryFolderIn(root_, key_), folder_ / "aside");
  fs::create_directory(EntryFolderIn(root_, key_));
  StageArtifact(EntryFolderIn(root_, key_), key_,
                {{"model.so", "another one"}});
  EXPECT_TRUE(HoldsArtifact(entry.verified->path()));
  EXPECT_FALSE(HoldsArtifact(entry.folder));
  // No two of them have one name, so that no library is taken for another.
  EXPECT_NE(cache->entries().Lookup(key_).has_value()
                ? cache->entries().Lookup(key_)->folder
                : "",
            entry.verified->path());
}

TEST_F(CacheLayersTest, EvictionTakesTheLeastRecentlyUsedThatNobodyUses) {
  const auto cache = Open({});
  std::vector<ArtifactKey> keys;
  for (int n = 0; n < 4; ++n) {
    keys.emplace_back(KeyFactors{{"graph", std::to_string(n)}});
    Commit(*cache, keys.back());
    const fs::path seal =
        EntryFolderIn(root_, keys.back()) + "/manifest.sha256";
    fs::last_write_time(
        seal, fs::file_time_type::clock::now() - std::chrono::hours(10 - n));
  }
  ASSERT_TRUE(cache->entries().SetPinned(keys[0], true).ok());
  const auto before = cache->entries().layers()[0].LastUsed(keys[1]);
  std::optional<CacheEntry> in_use = cache->entries().Lookup(keys[1]);
  EXPECT_GT(cache->entries().layers()[0].LastUsed(keys[1]), before);

  const CacheUse use =
      cache->entries().Evict({.max_bytes = 1}, absl::InfiniteFuture());
  EXPECT_EQ(use.entries, 2);
  EXPECT_EQ(use.evicted_entries, 2);
  EXPECT_TRUE(cache->entries().Lookup(keys[0]).has_value());  // pinned
  EXPECT_TRUE(HoldsArtifact(in_use->folder));
  EXPECT_FALSE(fs::exists(EntryFolderIn(root_, keys[2])));
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_evictions_total",
                        {{"reason", "size"}}),
            2);

  in_use.reset();
  EXPECT_EQ(
      cache->entries().Evict({.max_bytes = 1}, absl::InfiniteFuture()).entries,
      1);
  ASSERT_TRUE(cache->entries().SetPinned(keys[0], false).ok());
  EXPECT_EQ(
      cache->entries().Evict({.max_bytes = 1}, absl::InfiniteFuture()).entries,
      0);
  EXPECT_THAT(cache->entries().Keys(), IsEmpty());
  EXPECT_THAT(*Files::Real().List(root_ + "/v1/staging"), IsEmpty());
  EXPECT_THAT(*Files::Real().List(root_ + "/v1/locks"), IsEmpty());
  Commit(*cache, keys[2]);  // and it can come back
}

// Network file systems: nothing is shared out, and nothing breaks.
TEST_F(CacheLayersTest, WithoutLocksTheFirstEntryStays) {
  FaultyFiles files(Files::Real());
  files.HaveNoLocks();
  const auto first = Open({}, files);
  const std::string staged = *first->entries().NewStagingFolder(key_);
  const auto second = Open({}, files);
  EXPECT_TRUE(fs::exists(staged));  // its owner may live
  EXPECT_NE(*first->entries().TryLock(key_), nullptr);
  EXPECT_NE(*second->entries().TryLock(key_), nullptr);  // so both compile
  Commit(*second, key_);
  StageArtifact(staged, key_, {{"model.so", "another one"}});
  const auto late = first->entries().Commit(key_, staged);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(HoldsArtifact(late->folder));
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_commits_total",
                        {{"result", "duplicate"}}),
            1);
  // Nobody can tell whether it is in use.
  EXPECT_EQ(
      first->entries().Evict({.max_bytes = 1}, absl::InfiniteFuture()).entries,
      1);
}

TEST_F(CacheLayersTest, WithoutLocksAStagingFolderIsLeftBehindForADay) {
  FaultyFiles files(Files::Real());
  files.HaveNoLocks();
  Open({}, files).reset();
  const std::string staging = root_ + "/v1/staging/dead-0";
  fs::create_directory(staging);
  WriteBytes(staging + ".lock", "");
  const auto age = [&](int hours) {
    fs::last_write_time(staging + ".lock", fs::file_time_type::clock::now() -
                                               std::chrono::hours(hours));
    Open({}, files).reset();
    return fs::exists(staging);
  };
  EXPECT_TRUE(age(23));
  EXPECT_FALSE(age(25));
}

}  // namespace
}  // namespace stoker
