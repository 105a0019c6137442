// Entries: found, committed, set aside; by one daemon and by two.
#include "kernel_cache/entry_store.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "gmock/gmock.h"
#include "tests/fakes/faulty_files.h"
#include "tests/unit/kernel_cache/kernel_cache_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EntryStoreTest : public KernelCacheFixture {};

TEST_F(EntryStoreTest, CommittedEntriesAreFoundAlsoByTheNextProcess) {
  auto cache = Open();
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  const absl::StatusOr<CacheEntry> committed = Commit(*cache, key_);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_TRUE(fs::path(committed->folder).is_absolute());
  cache = Open();
  const std::optional<CacheEntry> found = cache->entries().Lookup(key_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->folder, committed->folder);
  EXPECT_EQ(found->key, key_);
  EXPECT_EQ(found->bytes, committed->bytes);
  EXPECT_EQ(found->manifest_json, ManifestOf(key_, SmallArtifact()).dump(1));
  EXPECT_TRUE(HoldsArtifact(found->folder));
  EXPECT_EQ(cache->entries().Lookup(other_key_), std::nullopt);
  EXPECT_THAT(Names("staging"), IsEmpty());
  EXPECT_EQ(Lookups("hit"), 1);
  EXPECT_EQ(Lookups("miss"), 2);
  EXPECT_EQ(Commits("ok"), 1);
}

TEST_F(EntryStoreTest, CountsEntriesAndBytes) {
  const auto cache = Open();
  const int64_t bytes = Commit(*cache, key_)->bytes;
  const int64_t more = Commit(*cache, other_key_)->bytes;
  const CacheUse use = cache->entries().Evict({}, absl::InfiniteFuture());
  EXPECT_EQ(use.entries, 2);
  EXPECT_EQ(use.bytes, bytes + more);
  EXPECT_EQ(use.evicted_entries, 0);
  EXPECT_EQ(Count(metric::kCacheEntries, {}), 2);
  EXPECT_EQ(Count(metric::kCacheBytes, {}), static_cast<double>(bytes + more));
}

TEST_F(EntryStoreTest, SecondCommitOfAKeyGivesTheFirstEntry) {
  const auto cache = Open();
  ASSERT_TRUE(Commit(*cache, key_).ok());
  // Compiles are not reproducible to the byte.
  const absl::StatusOr<CacheEntry> second =
      Commit(*cache, key_, {{"model.so", "other machine code"}});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(HoldsArtifact(second->folder));
  EXPECT_EQ(Commits("duplicate"), 1);
  EXPECT_THAT(Names("staging"), IsEmpty());
}

TEST_F(EntryStoreTest, CommitReplacesADamagedEntry) {
  const auto cache = Open();
  ASSERT_TRUE(Commit(*cache, key_).ok());
  WriteBytes(EntryPath(key_) + "/model.so", "damaged");
  const absl::StatusOr<CacheEntry> second = Commit(*cache, key_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(HoldsArtifact(second->folder));
  EXPECT_EQ(Commits("ok"), 2);
  EXPECT_EQ(Rejections("checksum"), 1);
}

TEST_F(EntryStoreTest, DamagedEntriesAreSetAsideWithAReason) {
  const auto cache = Open();
  struct Case {
    std::string file, content, reason;
  };
  const Case cases[] = {{"model.so", "damaged", "checksum"},
                        {"manifest.json", "{}", "manifest"},
                        {"extra", "", "manifest"}};
  for (const Case& c : cases) {
    ASSERT_TRUE(Commit(*cache, key_).ok());
    ASSERT_TRUE(cache->facts().WriteNote(key_, "verdict", "good").ok());
    WriteBytes(EntryPath(key_) + "/" + c.file, c.content);
    const double before = Rejections(c.reason);
    EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt) << c.file;
    EXPECT_EQ(Rejections(c.reason), before + 1) << c.file;
    EXPECT_FALSE(fs::exists(EntryPath(key_)));
    EXPECT_EQ(cache->facts().ReadNote(key_, "verdict"), std::nullopt);
  }
  const auto refusals = refusals_.Read();
  ASSERT_EQ(refusals.size(), 3u);
  EXPECT_EQ(refusals.back().what, "cache");
  EXPECT_EQ(refusals.back().of, key_.Short());
  EXPECT_EQ(refusals.back().label, "checksum");
  EXPECT_THAT(refusals.back().reason, HasSubstr("model.so has 7 bytes"));
  EXPECT_EQ(Lookups("damaged"), 3);
  EXPECT_EQ(Lookups("miss"), 0);
  const std::string first = root_ + "/v1/quarantine/" + key_.hex() + ".0";
  EXPECT_EQ(ReadBytes(first + "/model.so"), "damaged");
  EXPECT_THAT(ReadBytes(first + "/reason.txt"),
              HasSubstr("model.so has 7 bytes"));
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  EXPECT_EQ(Lookups("miss"), 1);
}

TEST_F(EntryStoreTest, QuarantineKeepsThreePerKey) {
  const auto cache = Open();
  for (int i = 0; i < 5; ++i) {
    const absl::StatusOr<CacheEntry> entry = Commit(*cache, key_);
    ASSERT_TRUE(entry.ok()) << entry.status();
    cache->entries().Quarantine(*entry, "round " + std::to_string(i));
  }
  EXPECT_EQ(Names("quarantine").size(), 3u);
  EXPECT_EQ(ReadBytes(root_ + "/v1/quarantine/" + key_.hex() + ".2/reason.txt"),
            "round 4\n");
}

TEST_F(EntryStoreTest, QuarantineOfAnEntryThatCannotBeOpened) {
  const auto cache = Open();
  const absl::StatusOr<CacheEntry> entry = Commit(*cache, key_);
  ASSERT_TRUE(entry.ok()) << entry.status();
  cache->entries().Quarantine(*entry, "undefined symbol");
  EXPECT_EQ(Rejections("open"), 1);
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  EXPECT_EQ(Lookups("miss"), 1);
  cache->entries().Quarantine(*entry, "there is nothing");
  EXPECT_EQ(Rejections("open"), 1);
  EXPECT_TRUE(Commit(*cache, key_).ok());
}

TEST_F(EntryStoreTest, CommitRefusesWhatDoesNotFitItsManifest) {
  const auto cache = Open();
  const auto commit =
      [&](const std::function<void(const std::string&)>& spoil) {
        const std::string folder = *cache->entries().NewStagingFolder(key_);
        StageArtifact(folder, key_);
        spoil(folder);
        absl::Status status = cache->entries().Commit(key_, folder).status();
        EXPECT_TRUE(fs::exists(root_ + "/v1/staging"));
        cache->entries().Abandon(folder);
        return status;
      };
  const absl::Status refusals[] = {
      commit([](const std::string& f) { WriteBytes(f + "/model.so", "half"); }),
      commit([](const std::string& f) { fs::remove(f + "/model.so"); }),
      commit([](const std::string& f) { fs::remove(f + "/manifest.json"); }),
      commit([](const std::string& f) { fs::remove_all(f); }),
      commit([](const std::string& f) { WriteBytes(f + "/left.tmp", "x"); }),
      commit([&](const std::string& f) { StageArtifact(f, other_key_); })};
  for (const absl::Status& refusal : refusals) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr(key_.hex()));
  }
  EXPECT_EQ(Commits("failed"), 6);
  EXPECT_FALSE(fs::exists(EntryPath(key_)));
  EXPECT_THAT(Names("staging"), IsEmpty());
  EXPECT_TRUE(commit([](const std::string&) {}).ok());
}

TEST_F(EntryStoreTest, CommitTakesOnlyItsOwnStagingFolders) {
  const auto cache = Open();
  const auto other = Open();
  ASSERT_TRUE(Files::Real().MakeFolders(folder_ / "elsewhere").ok());
  StageArtifact(folder_ / "elsewhere", key_);
  EXPECT_EQ(
      cache->entries().Commit(key_, folder_ / "elsewhere").status().code(),
      absl::StatusCode::kFailedPrecondition);
  const std::string of_other = *other->entries().NewStagingFolder(key_);
  StageArtifact(of_other, key_);
  EXPECT_EQ(cache->entries().Commit(key_, of_other).status().code(),
            absl::StatusCode::kFailedPrecondition);
  cache->entries().Abandon(of_other);
  EXPECT_TRUE(other->entries().Commit(key_, of_other).ok());
}

TEST_F(EntryStoreTest, AnEmptyKeyIsNoKey) {
  const auto cache = Open();
  const ArtifactKey none = ArtifactKey::FromHex("../../etc");
  EXPECT_EQ(cache->entries().Lookup(none), std::nullopt);
  EXPECT_EQ(cache->entries().TryLock(none).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->entries().NewStagingFolder(none).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->entries().Commit(none, "x").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->facts().WriteNote(none, "a", "b").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->facts().ReadNote(none, "a"), std::nullopt);
  cache->entries().Quarantine({.key = none}, "x");
  EXPECT_THAT(Names("quarantine"), IsEmpty());
}

TEST_F(EntryStoreTest, OneCompilerPerKeyOverTwoDaemons) {
  const auto first = Open();
  const auto second = Open();
  auto lock = first->entries().TryLock(key_);
  ASSERT_TRUE(lock.ok() && *lock != nullptr);
  EXPECT_EQ(*second->entries().TryLock(key_), nullptr);
  EXPECT_EQ(*first->entries().TryLock(key_), nullptr);
  EXPECT_NE(*second->entries().TryLock(other_key_), nullptr);
  lock->reset();
  EXPECT_NE(*second->entries().TryLock(key_), nullptr);
}

TEST_F(EntryStoreTest, TwoDaemonsShareEntriesAndStaging) {
  const auto first = Open();
  const std::string staged = *first->entries().NewStagingFolder(key_);
  const auto second = Open();  // must not clean up after the living
  EXPECT_TRUE(fs::exists(staged));
  StageArtifact(staged, key_);
  ASSERT_TRUE(Commit(*second, key_).ok());
  const std::optional<CacheEntry> entry = first->entries().Lookup(key_);
  ASSERT_TRUE(entry.has_value());
  ASSERT_TRUE(first->entries().Commit(key_, staged).ok());
  EXPECT_EQ(Commits("duplicate"), 1);
  first->entries().Quarantine(*entry, "bad");
  EXPECT_EQ(second->entries().Lookup(key_), std::nullopt);
}

// One daemon is slow to say that an entry is bad; by then another daemon has
// found that as well, and has made a new one.
TEST_F(EntryStoreTest, QuarantineLeavesANeighboursFreshEntryAlone) {
  const auto first = Open();
  const auto second = Open();
  const absl::StatusOr<CacheEntry> bad = Commit(*first, key_);
  ASSERT_TRUE(bad.ok()) << bad.status();
  second->entries().Quarantine(*second->entries().Lookup(key_), "it fell over");
  const ArtifactFiles fresh = {{"model.so", "compiled again"}};
  ASSERT_TRUE(Commit(*second, key_, fresh).ok());
  ASSERT_TRUE(second->facts().WriteNote(key_, "verdict", "good").ok());
  first->entries().Quarantine(*bad, "it fell over here, too");
  const std::optional<CacheEntry> found = first->entries().Lookup(key_);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(HoldsArtifact(found->folder, fresh));
  EXPECT_EQ(first->facts().ReadNote(key_, "verdict"), "good");
  EXPECT_EQ(Rejections("open"), 1);
  EXPECT_EQ(Names("quarantine").size(), 1u);
}

// Calls back when the first of a kind of lock is about to be taken: the moment
// at which another daemon may be faster.
class Interloper : public FaultyFiles {
 public:
  Interloper(std::string suffix, std::function<void()> act)
      : FaultyFiles(Files::Real()),
        suffix_(std::move(suffix)),
        act_(std::move(act)) {}

  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(
      const std::string& path) override {
    if (path.ends_with(suffix_) && act_) std::exchange(act_, nullptr)();
    return FaultyFiles::TryLock(path);
  }

 private:
  const std::string suffix_;
  std::function<void()> act_;
};

TEST_F(EntryStoreTest, EvictionLeavesWhatWasReplacedOrUsedMeanwhile) {
  const auto second = Open();
  const auto age = [&] {
    fs::last_write_time(
        EntryPath(key_) + "/manifest.sha256",
        fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  const auto replace = [&] {
    second->entries().Quarantine(*second->entries().Lookup(key_), "bad");
    ASSERT_TRUE(Commit(*second, key_).ok());
  };
  const auto use = [&] {
    EXPECT_TRUE(second->entries().Lookup(key_).has_value());
  };
  const auto pin = [&] {
    EXPECT_TRUE(second->entries().SetPinned(key_, true).ok());
  };
  const std::vector<std::function<void()>> deeds = {replace, use, pin};
  for (size_t i = 0; i < deeds.size(); ++i) {
    ASSERT_TRUE(Commit(*second, key_).ok());
    age();
    Interloper files(".use", deeds[i]);
    const auto first = Open(files);
    const CacheUse left =
        first->entries().Evict({.max_bytes = 1}, absl::InfiniteFuture());
    EXPECT_EQ(left.evicted_entries, 0) << i;
    EXPECT_TRUE(second->entries().Lookup(key_).has_value()) << i;
  }
  ASSERT_TRUE(second->entries().SetPinned(key_, false).ok());
  EXPECT_EQ(second->entries()
                .Evict({.max_bytes = 1}, absl::InfiniteFuture())
                .evicted_entries,
            1);
}

TEST_F(EntryStoreTest, EvictionKeepsTheLockFileOfWhoeverCompilesTheKey) {
  const auto first = Open();
  const auto second = Open();
  ASSERT_TRUE(Commit(*first, key_).ok());
  const auto compiling = second->entries().TryLock(key_);
  ASSERT_TRUE(compiling.ok() && *compiling != nullptr);
  EXPECT_EQ(first->entries()
                .Evict({.max_bytes = 1}, absl::InfiniteFuture())
                .evicted_entries,
            1);
  EXPECT_EQ(*first->entries().TryLock(key_), nullptr);
  EXPECT_EQ(Names("locks").size(), 1u);
}

TEST_F(EntryStoreTest, TheLimitIsOfAllThatLiesInTheFolder) {
  const auto cache = Open();
  EntryStore& entries = cache->entries();
  ASSERT_TRUE(Commit(*cache, key_).ok());
  const fs::path scratch = entries.scratch_folder();
  constexpr int64_t kPiece = 100'000;
  const auto put = [&](const fs::path& folder, int hours_old) {
    fs::create_directories(folder);
    ASSERT_TRUE(
        Files::Real().Write(folder / "file", std::string(kPiece, 'x')).ok());
    fs::last_write_time(folder, fs::file_time_type::clock::now() -
                                    std::chrono::hours(hours_old));
  };
  put(scratch / "headers/older", 2);
  put(scratch / "headers/newer", 1);
  put(scratch / "inductor", 3);
  put(fs::path(root_) / "v1/quarantine/bad", 0);
  const auto evict = [&](int64_t max_bytes) {
    return entries.Evict({.max_bytes = max_bytes}, absl::InfiniteFuture());
  };
  const CacheUse all = evict(0);
  EXPECT_EQ(all.entries, 1);
  EXPECT_GE(all.other_bytes, 4 * kPiece);
  EXPECT_LT(all.other_bytes, 5 * kPiece);
  EXPECT_EQ(Count(metric::kCacheOtherBytes, {}),
            static_cast<double>(all.other_bytes));
  const int64_t everything = all.bytes + all.other_bytes;
  evict(everything);
  EXPECT_TRUE(fs::exists(scratch / "headers/older")) << "it fits";

  // While a compile worker lives what it works with stays.
  fs::create_directories(scratch / "work/1");
  auto worker = Files::Real().TryLock(scratch / "work/1/lock");
  ASSERT_TRUE(worker.ok() && *worker != nullptr);
  const CacheUse busy = evict(everything - 3 * kPiece);
  EXPECT_EQ(busy.entries, 1);
  EXPECT_THAT(Names("quarantine"), testing::IsEmpty());
  EXPECT_TRUE(fs::exists(scratch / "headers/older"));
  worker->reset();

  // The oldest headers first, then what else there is, then entries.
  evict(everything - 2 * kPiece);
  EXPECT_FALSE(fs::exists(scratch / "headers/older"));
  EXPECT_TRUE(fs::exists(scratch / "headers/newer"));
  const CacheUse little = evict(everything - 4 * kPiece);
  EXPECT_FALSE(fs::exists(scratch / "headers/newer"));
  EXPECT_FALSE(fs::exists(scratch / "inductor"));
  EXPECT_EQ(little.entries, 1);
  EXPECT_EQ(evict(1).entries, 0);
  EXPECT_THAT(Names("staging"), testing::IsEmpty());
}

TEST_F(EntryStoreTest, OneEntryIsRemovedUnlessItIsUsedOrPinned) {
  const auto cache = Open();
  EntryStore& entries = cache->entries();
  EXPECT_EQ(entries.Remove(key_).code(), absl::StatusCode::kNotFound);
  {
    const absl::StatusOr<CacheEntry> in_use = Commit(*cache, key_);
    ASSERT_TRUE(in_use.ok()) << in_use.status();
    EXPECT_EQ(entries.Remove(key_).code(), absl::StatusCode::kUnavailable);
  }
  ASSERT_TRUE(entries.SetPinned(key_, true).ok());
  EXPECT_EQ(entries.Remove(key_).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(entries.SetPinned(key_, false).ok());
  ASSERT_TRUE(cache->facts().WriteNote(key_, "verdict", "good").ok());
  ASSERT_TRUE(Commit(*cache, other_key_).ok());
  ASSERT_TRUE(entries.Remove(key_).ok());
  EXPECT_EQ(entries.Lookup(key_), std::nullopt);
  EXPECT_EQ(cache->facts().ReadNote(key_, "verdict"), std::nullopt);
  EXPECT_TRUE(entries.Lookup(other_key_).has_value());
  EXPECT_THAT(Names("staging"), IsEmpty());
}

TEST_F(EntryStoreTest, ManyThreadsOnTwoCachesAgree) {
  const auto first = Open();
  const auto second = Open();
  std::atomic<int> wrong = 0;
  {
    std::vector<Thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("worker", [&, t] {
        KernelCache& cache = t % 2 == 0 ? *first : *second;
        for (int i = 0; i < 20; ++i) {
          const ArtifactKey key(KeyFactors{{"graph", std::to_string(i / 4)}});
          const absl::StatusOr<CacheEntry> entry = Commit(cache, key);
          if (!entry.ok() && !absl::IsUnavailable(entry.status())) ++wrong;
          if (t == 0 && i % 4 == 1) {
            WriteBytes(EntryPath(key) + "/model.so", "damaged");
          }
          if (t == 3 && i % 4 == 2 && entry.ok()) {
            cache.entries().Quarantine(*entry, "test");
          }
          cache.entries().Lookup(key);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (int i = 0; i < 5; ++i) {
    const ArtifactKey key(KeyFactors{{"graph", std::to_string(i)}});
    ASSERT_TRUE(Commit(*first, key).ok());
    const std::optional<CacheEntry> entry = second->entries().Lookup(key);
    ASSERT_TRUE(entry.has_value());
    EXPECT_TRUE(HoldsArtifact(entry->folder));
  }
}

TEST_F(EntryStoreTest, AReadOnlyDiskStillServesItsEntries) {
  ASSERT_TRUE(Commit(*Open(), key_).ok());
  FaultyFiles files(Files::Real());
  const auto cache = Open(files);
  files.FailAllChanges(absl::PermissionDeniedError("read-only file system"));
  EXPECT_TRUE(cache->entries().Lookup(key_).has_value());
  EXPECT_EQ(cache->entries().NewStagingFolder(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(cache->entries().TryLock(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(cache->facts().WriteNote(key_, "a", "b").code(),
            absl::StatusCode::kPermissionDenied);
  // Damage can't be set aside, but is not served either.
  WriteBytes(EntryPath(key_) + "/model.so", "damaged");
  EXPECT_EQ(cache->entries().Lookup(key_), std::nullopt);
  EXPECT_EQ(Rejections("checksum"), 0);
}

TEST_F(EntryStoreTest, EveryFailingOperationOfACommitIsAStatus) {
  const absl::Status full = absl::ResourceExhaustedError("disk full");
  for (int n = 0;; ++n) {
    const ArtifactKey key(KeyFactors{{"n", std::to_string(n)}});
    FaultyFiles files(Files::Real());
    auto cache = Open(files);
    const std::string folder = *cache->entries().NewStagingFolder(key);
    StageArtifact(folder, key);
    const int first = files.operations();
    files.FailAt(first + n, full);
    const absl::StatusOr<CacheEntry> entry =
        cache->entries().Commit(key, folder);
    const bool was_reached = files.operations() > first + n;
    if (!entry.ok()) {
      EXPECT_THAT(std::string(entry.status().message()),
                  HasSubstr("disk full"));
      cache->entries().Abandon(folder);
      EXPECT_TRUE(Commit(*cache, key).ok()) << n;
    }
    EXPECT_TRUE(Open()->entries().Lookup(key).has_value()) << n;
    if (!was_reached) {
      EXPECT_GT(n, 8);
      break;
    }
  }
  EXPECT_THAT(Names("quarantine"), IsEmpty());
}

}  // namespace
}  // namespace stoker
