#include "kernel_cache/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KernelCacheTest : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(Files& files) {
    auto cache = KernelCache::Open({.root = root_, .refusals = &refusals_},
                                   files, metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
  std::unique_ptr<KernelCache> Open() { return Open(Files::Real()); }

  absl::StatusOr<CacheEntry> Commit(
      KernelCache& cache, const ArtifactKey& key,
      const ArtifactFiles& files = SmallArtifact()) {
    absl::StatusOr<std::string> folder = cache.NewStagingFolder(key);
    if (!folder.ok()) return folder.status();
    StageArtifact(*folder, key, files);
    absl::StatusOr<CacheEntry> entry = cache.Commit(key, *folder);
    if (!entry.ok()) cache.Abandon(*folder);
    return entry;
  }

  std::string EntryPath(const ArtifactKey& key) {
    return EntryFolderIn(root_, key);
  }
  std::vector<std::string> Names(const std::string& folder) {
    return *Files::Real().List(root_ + "/v1/" + folder);
  }
  double Count(const MetricDef& def, const Labels& labels) {
    return MetricValue(metrics_, def.name, labels);
  }
  double Lookups(const std::string& result) {
    return Count(
        metric::kCacheRequests,
        {{"layer", result == "miss" ? "" : "upper"}, {"result", result}});
  }
  double Rejections(const std::string& reason) {
    return Count(metric::kCacheRejections, {{"reason", reason}});
  }
  double Commits(const std::string& result) {
    return Count(metric::kCacheCommits, {{"result", result}});
  }

  TempFolder folder_{TempFolder::Where::kMemory};
  const std::string root_ = folder_ / "cache";
  MetricRegistry metrics_;
  RecentRefusals refusals_{Clock::Real()};
  const ArtifactKey key_{KeyFactors{{"graph", "g"}}};
  const ArtifactKey other_key_{KeyFactors{{"graph", "h"}}};
};

TEST_F(KernelCacheTest, OpenMakesPrivateFolders) {
  const auto cache = Open();
  EXPECT_EQ(Names("").size(), 7u);
  for (const std::string name : {"", "/v1", "/v1/entries", "/v1/scratch"}) {
    EXPECT_EQ(Files::Real().Stat(root_ + name)->permissions, 0700u) << name;
  }
  EXPECT_EQ(cache->scratch_folder(),
            fs::canonical(root_).string() + "/v1/scratch");
}

TEST_F(KernelCacheTest, CommittedEntriesAreFoundAlsoByTheNextProcess) {
  auto cache = Open();
  EXPECT_EQ(cache->Lookup(key_), std::nullopt);
  const absl::StatusOr<CacheEntry> committed = Commit(*cache, key_);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_TRUE(fs::path(committed->folder).is_absolute());
  cache = Open();
  const std::optional<CacheEntry> found = cache->Lookup(key_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->folder, committed->folder);
  EXPECT_EQ(found->key, key_);
  EXPECT_EQ(found->bytes, committed->bytes);
  EXPECT_EQ(found->manifest_json, ManifestOf(key_, SmallArtifact()).dump(1));
  EXPECT_TRUE(HoldsArtifact(found->folder));
  EXPECT_EQ(cache->Lookup(other_key_), std::nullopt);
  EXPECT_THAT(Names("staging"), IsEmpty());
  EXPECT_EQ(Lookups("hit"), 1);
  EXPECT_EQ(Lookups("miss"), 2);
  EXPECT_EQ(Commits("ok"), 1);
}

TEST_F(KernelCacheTest, CountsEntriesAndBytes) {
  const auto cache = Open();
  const int64_t bytes = Commit(*cache, key_)->bytes;
  const int64_t more = Commit(*cache, other_key_)->bytes;
  const CacheUse use = cache->Evict({}, absl::InfiniteFuture());
  EXPECT_EQ(use.entries, 2);
  EXPECT_EQ(use.bytes, bytes + more);
  EXPECT_EQ(use.evicted_entries, 0);
  EXPECT_EQ(Count(metric::kCacheEntries, {}), 2);
  EXPECT_EQ(Count(metric::kCacheBytes, {}), static_cast<double>(bytes + more));
}

TEST_F(KernelCacheTest, SecondCommitOfAKeyGivesTheFirstEntry) {
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

TEST_F(KernelCacheTest, CommitReplacesADamagedEntry) {
  const auto cache = Open();
  ASSERT_TRUE(Commit(*cache, key_).ok());
  WriteBytes(EntryPath(key_) + "/model.so", "damaged");
  const absl::StatusOr<CacheEntry> second = Commit(*cache, key_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(HoldsArtifact(second->folder));
  EXPECT_EQ(Commits("ok"), 2);
  EXPECT_EQ(Rejections("checksum"), 1);
}

TEST_F(KernelCacheTest, DamagedEntriesAreSetAsideWithAReason) {
  const auto cache = Open();
  struct Case {
    std::string file, content, reason;
  };
  const Case cases[] = {{"model.so", "damaged", "checksum"},
                        {"manifest.json", "{}", "manifest"},
                        {"extra", "", "manifest"}};
  for (const Case& c : cases) {
    ASSERT_TRUE(Commit(*cache, key_).ok());
    ASSERT_TRUE(cache->WriteNote(key_, "verdict", "good").ok());
    WriteBytes(EntryPath(key_) + "/" + c.file, c.content);
    const double before = Rejections(c.reason);
    EXPECT_EQ(cache->Lookup(key_), std::nullopt) << c.file;
    EXPECT_EQ(Rejections(c.reason), before + 1) << c.file;
    EXPECT_FALSE(fs::exists(EntryPath(key_)));
    EXPECT_EQ(cache->ReadNote(key_, "verdict"), std::nullopt);
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
  EXPECT_EQ(cache->Lookup(key_), std::nullopt);
  EXPECT_EQ(Lookups("miss"), 1);
}

TEST_F(KernelCacheTest, QuarantineKeepsThreePerKey) {
  const auto cache = Open();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Commit(*cache, key_).ok());
    cache->Quarantine({.key = key_}, "round " + std::to_string(i));
  }
  EXPECT_EQ(Names("quarantine").size(), 3u);
  EXPECT_EQ(ReadBytes(root_ + "/v1/quarantine/" + key_.hex() + ".2/reason.txt"),
            "round 4\n");
}

TEST_F(KernelCacheTest, QuarantineOfAnEntryThatCannotBeOpened) {
  const auto cache = Open();
  ASSERT_TRUE(Commit(*cache, key_).ok());
  cache->Quarantine({.key = key_}, "undefined symbol");
  EXPECT_EQ(Rejections("open"), 1);
  EXPECT_EQ(cache->Lookup(key_), std::nullopt);
  EXPECT_EQ(Lookups("miss"), 1);
  cache->Quarantine({.key = key_}, "there is nothing");
  EXPECT_EQ(Rejections("open"), 1);
  EXPECT_TRUE(Commit(*cache, key_).ok());
}

TEST_F(KernelCacheTest, CommitRefusesWhatDoesNotFitItsManifest) {
  const auto cache = Open();
  const auto commit = [&](const std::function<void(std::string)>& spoil) {
    const std::string folder = *cache->NewStagingFolder(key_);
    StageArtifact(folder, key_);
    spoil(folder);
    const absl::Status status = cache->Commit(key_, folder).status();
    EXPECT_TRUE(fs::exists(root_ + "/v1/staging"));
    cache->Abandon(folder);
    return status;
  };
  const absl::Status refusals[] = {
      commit([](std::string f) { WriteBytes(f + "/model.so", "half"); }),
      commit([](std::string f) { fs::remove(f + "/model.so"); }),
      commit([](std::string f) { fs::remove(f + "/manifest.json"); }),
      commit([](std::string f) { fs::remove_all(f); }),
      commit([](std::string f) { WriteBytes(f + "/left.tmp", "x"); }),
      commit([&](std::string f) { StageArtifact(f, other_key_); })};
  for (const absl::Status& refusal : refusals) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr(key_.hex()));
  }
  EXPECT_EQ(Commits("failed"), 6);
  EXPECT_FALSE(fs::exists(EntryPath(key_)));
  EXPECT_THAT(Names("staging"), IsEmpty());
  EXPECT_TRUE(commit([](std::string) {}).ok());
}

TEST_F(KernelCacheTest, CommitTakesOnlyItsOwnStagingFolders) {
  const auto cache = Open();
  const auto other = Open();
  ASSERT_TRUE(Files::Real().MakeFolders(folder_ / "elsewhere").ok());
  StageArtifact(folder_ / "elsewhere", key_);
  EXPECT_EQ(cache->Commit(key_, folder_ / "elsewhere").status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string of_other = *other->NewStagingFolder(key_);
  StageArtifact(of_other, key_);
  EXPECT_EQ(cache->Commit(key_, of_other).status().code(),
            absl::StatusCode::kFailedPrecondition);
  cache->Abandon(of_other);
  EXPECT_TRUE(other->Commit(key_, of_other).ok());
}

TEST_F(KernelCacheTest, AnEmptyKeyIsNoKey) {
  const auto cache = Open();
  const ArtifactKey none = ArtifactKey::FromHex("../../etc");
  EXPECT_EQ(cache->Lookup(none), std::nullopt);
  EXPECT_EQ(cache->TryLock(none).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->NewStagingFolder(none).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->Commit(none, "x").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->WriteNote(none, "a", "b").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->ReadNote(none, "a"), std::nullopt);
  cache->Quarantine({.key = none}, "x");
  EXPECT_THAT(Names("quarantine"), IsEmpty());
}

TEST_F(KernelCacheTest, OneCompilerPerKeyOverTwoDaemons) {
  const auto first = Open();
  const auto second = Open();
  auto lock = first->TryLock(key_);
  ASSERT_TRUE(lock.ok() && *lock != nullptr);
  EXPECT_EQ(*second->TryLock(key_), nullptr);
  EXPECT_EQ(*first->TryLock(key_), nullptr);
  EXPECT_NE(*second->TryLock(other_key_), nullptr);
  lock->reset();
  EXPECT_NE(*second->TryLock(key_), nullptr);
}

TEST_F(KernelCacheTest, TwoDaemonsShareEntriesAndStaging) {
  const auto first = Open();
  const std::string staged = *first->NewStagingFolder(key_);
  const auto second = Open();  // must not clean up after the living
  EXPECT_TRUE(fs::exists(staged));
  StageArtifact(staged, key_);
  ASSERT_TRUE(Commit(*second, key_).ok());
  EXPECT_TRUE(first->Lookup(key_).has_value());
  ASSERT_TRUE(first->Commit(key_, staged).ok());
  EXPECT_EQ(Commits("duplicate"), 1);
  first->Quarantine({.key = key_}, "bad");
  EXPECT_EQ(second->Lookup(key_), std::nullopt);
}

TEST_F(KernelCacheTest, ManyThreadsOnTwoCachesAgree) {
  const auto first = Open();
  const auto second = Open();
  std::atomic<int> wrong = 0;
  {
    std::vector<Thread> threads;
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
          if (t == 3 && i % 4 == 2) cache.Quarantine({.key = key}, "test");
          cache.Lookup(key);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (int i = 0; i < 5; ++i) {
    const ArtifactKey key(KeyFactors{{"graph", std::to_string(i)}});
    ASSERT_TRUE(Commit(*first, key).ok());
    const std::optional<CacheEntry> entry = second->Lookup(key);
    ASSERT_TRUE(entry.has_value());
    EXPECT_TRUE(HoldsArtifact(entry->folder));
  }
}

TEST_F(KernelCacheTest, NotesAreReplacedAndBelongToAKey) {
  const auto cache = Open();
  EXPECT_EQ(cache->ReadNote(key_, "verdict.json"), std::nullopt);
  ASSERT_TRUE(cache->WriteNote(key_, "verdict.json", "one").ok());
  ASSERT_TRUE(cache->WriteNote(key_, "verdict.json", "two").ok());
  EXPECT_EQ(cache->ReadNote(key_, "verdict.json"), "two");
  EXPECT_EQ(cache->ReadNote(key_, "other"), std::nullopt);
  EXPECT_EQ(cache->ReadNote(other_key_, "verdict.json"), std::nullopt);
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (const std::string name :
       {"", ".", "..", ".hidden", "a/b", "../x", "Upper", "sp ace"}) {
    EXPECT_EQ(cache->WriteNote(key_, name, "x").code(),
              absl::StatusCode::kInvalidArgument)
        << name;
    EXPECT_EQ(cache->ReadNote(key_, name), std::nullopt) << name;
  }
}

TEST_F(KernelCacheTest, RefusesARootThatOthersMayWrite) {
  for (const std::string name : {"", "/v1", "/v1/entries", "/v1/staging"}) {
    Open().reset();
    for (const mode_t mode : {0770, 0707, 0777}) {
      ASSERT_EQ(chmod((root_ + name).c_str(), mode), 0);
      const absl::Status status =
          KernelCache::Open({.root = root_}, Files::Real(), metrics_).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name;
      EXPECT_THAT(std::string(status.message()), HasSubstr(root_ + name));
    }
    ASSERT_EQ(chmod((root_ + name).c_str(), 0750), 0);
    EXPECT_NE(Open(), nullptr);
  }
}

TEST_F(KernelCacheTest, RefusesARootOfSomebodyElse) {
  Open().reset();
  std::string foreign = "/usr";  // root's, for everybody but root
  if (geteuid() == 0) {
    foreign = root_;
    ASSERT_EQ(chown(root_.c_str(), 65534, 65534), 0);
  }
  const absl::Status status =
      KernelCache::Open({.root = foreign}, Files::Real(), metrics_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to user"));
}

TEST_F(KernelCacheTest, RefusesLinksAndFilesAmongItsFolders) {
  Open().reset();
  fs::rename(root_ + "/v1/entries", folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", root_ + "/v1/entries");
  EXPECT_EQ(KernelCache::Open({.root = root_}, Files::Real(), metrics_)
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  WriteBytes(folder_ / "file", "");
  EXPECT_FALSE(
      KernelCache::Open({.root = folder_ / "file"}, Files::Real(), metrics_)
          .ok());
}

TEST_F(KernelCacheTest, AReadOnlyDiskStillServesItsEntries) {
  ASSERT_TRUE(Commit(*Open(), key_).ok());
  FaultyFiles files(Files::Real());
  const auto cache = Open(files);
  files.FailAllChanges(absl::PermissionDeniedError("read-only file system"));
  EXPECT_TRUE(cache->Lookup(key_).has_value());
  EXPECT_EQ(cache->NewStagingFolder(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(cache->TryLock(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(cache->WriteNote(key_, "a", "b").code(),
            absl::StatusCode::kPermissionDenied);
  // Damage can't be set aside, but is not served either.
  WriteBytes(EntryPath(key_) + "/model.so", "damaged");
  EXPECT_EQ(cache->Lookup(key_), std::nullopt);
  EXPECT_EQ(Rejections("checksum"), 0);
}

TEST_F(KernelCacheTest, EveryFailingOperationOfACommitIsAStatus) {
  const absl::Status full = absl::ResourceExhaustedError("disk full");
  for (int n = 0;; ++n) {
    const ArtifactKey key(KeyFactors{{"n", std::to_string(n)}});
    FaultyFiles files(Files::Real());
    auto cache = Open(files);
    const std::string folder = *cache->NewStagingFolder(key);
    StageArtifact(folder, key);
    const int first = files.operations();
    files.FailAt(first + n, full);
    const absl::StatusOr<CacheEntry> entry = cache->Commit(key, folder);
    const bool was_reached = files.operations() > first + n;
    if (!entry.ok()) {
      EXPECT_THAT(std::string(entry.status().message()),
                  HasSubstr("disk full"));
      cache->Abandon(folder);
      EXPECT_TRUE(Commit(*cache, key).ok()) << n;
    }
    EXPECT_TRUE(Open()->Lookup(key).has_value()) << n;
    if (!was_reached) {
      EXPECT_GT(n, 8);
      break;
    }
  }
  EXPECT_THAT(Names("quarantine"), IsEmpty());
}

TEST_F(KernelCacheTest, TrafficIsKeptByModelName) {
  auto cache = Open();
  EXPECT_TRUE(absl::IsNotFound(cache->ReadTraffic("minilm").status()));
  ASSERT_TRUE(cache->WriteTraffic("minilm", "first").ok());
  ASSERT_TRUE(cache->WriteTraffic("..", "of a model with an odd name").ok());
  ASSERT_TRUE(Open()->WriteTraffic("minilm", "second").ok());
  EXPECT_EQ(cache->ReadTraffic("minilm").value(), "second");
  EXPECT_EQ(cache->ReadTraffic("..").value(), "of a model with an odd name");
  EXPECT_THAT(Names("traffic"), testing::ElementsAre("...json", "minilm.json"));
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (const char* name : {"", "a/b", "../a", "a\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(cache->WriteTraffic(name, "")));
    EXPECT_TRUE(absl::IsInvalidArgument(cache->ReadTraffic(name).status()));
  }
}

TEST_F(KernelCacheTest, DamagedTrafficIsSetAside) {
  auto cache = Open();
  ASSERT_TRUE(cache->WriteTraffic("minilm", "damaged").ok());
  cache->SetTrafficAside("minilm", "it is no JSON");
  EXPECT_TRUE(absl::IsNotFound(cache->ReadTraffic("minilm").status()));
  EXPECT_THAT(Names("traffic"), testing::ElementsAre("minilm.json.damaged"));
  cache->SetTrafficAside("minilm", "there is nothing");

  const std::string large(KernelCache::kMaxTrafficBytes + 1, ' ');
  ASSERT_TRUE(cache->WriteTraffic("minilm", large).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(cache->ReadTraffic("minilm").status()));
}

TEST_F(KernelCacheTest, AFullDiskKeepsTheTrafficThatWasThere) {
  FaultyFiles files(Files::Real());
  auto cache = Open(files);
  ASSERT_TRUE(cache->WriteTraffic("minilm", "before").ok());
  for (int n = 0;; ++n) {
    const int first = files.operations();
    files.FailAt(first + n, absl::ResourceExhaustedError("disk full"));
    const bool done = cache->WriteTraffic("minilm", "after").ok();
    const bool was_reached = files.operations() > first + n;
    files.FailAt(std::numeric_limits<int>::max(), absl::OkStatus());
    const std::string now = cache->ReadTraffic("minilm").value();
    if (!was_reached) {
      EXPECT_EQ(now, "after");
      return;
    }
    EXPECT_EQ(now, done ? "after" : "before");
    ASSERT_TRUE(cache->WriteTraffic("minilm", "before").ok());
  }
}

}  // namespace
}  // namespace stoker
