// A daemon may die at any moment of a commit; the next one must find either the
// whole entry or none.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "spdlog/spdlog.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::IsEmpty;
using Moment = FaultyFiles::Moment;

ArtifactKey KeyOf(int n) {
  return ArtifactKey(KeyFactors{{"graph", std::to_string(n)}});
}

// One daemon's work: open the cache, compile, commit, note the verdict, set the
// entry aside and commit it again. Errors don't matter here: it may be dead.
void Work(const std::string& root, Files& files, const ArtifactKey& key) {
  MetricRegistry metrics;
  auto cache = KernelCache::Open({.root = root}, files, metrics);
  if (!cache.ok()) return;
  for (int round = 0; round < 2; ++round) {
    const auto lock = (*cache)->entries().TryLock(key);
    const auto folder = (*cache)->entries().NewStagingFolder(key);
    if (!folder.ok()) return;
    StageArtifact(*folder, key);
    const auto entry = (*cache)->entries().Commit(key, *folder);
    if (!entry.ok()) return;
    (*cache)->facts().WriteNote(key, "verdict", "one verdict").IgnoreError();
    (*cache)
        ->facts()
        .WriteNote(key, "verdict", "another verdict")
        .IgnoreError();
    if (round == 0) (*cache)->entries().Quarantine(*entry, "test");
  }
}

class CrashTest : public testing::TestWithParam<std::tuple<Moment, bool>> {
 protected:
  CrashTest() { spdlog::set_level(spdlog::level::off); }
  ~CrashTest() override { spdlog::set_level(spdlog::level::info); }
};

// Dies in the n-th file operation, for every n; returns false when the work has
// fewer.
bool DieAt(int n, Moment moment, bool lose_power) {
  SCOPED_TRACE(n);
  TempFolder folder(TempFolder::Where::kMemory);
  const std::string root = folder / "cache";
  const ArtifactKey key = KeyOf(0);
  FaultyFiles files(Files::Real());
  files.DieAt(n, moment);
  Work(root, files, key);
  if (!files.dead()) return false;
  if (lose_power) files.LosePower(folder.path());

  MetricRegistry metrics;
  auto next = KernelCache::Open({.root = root}, Files::Real(), metrics);
  EXPECT_TRUE(next.ok()) << next.status();
  if (!next.ok()) return true;
  EXPECT_THAT(*Files::Real().List(root + "/v1/staging"), IsEmpty());
  // What a dead daemon has published is whole: nothing is found damaged.
  const std::optional<CacheEntry> entry = (*next)->entries().Lookup(key);
  EXPECT_EQ(MetricValue(metrics, "stoker_cache_requests_total",
                        {{"layer", "upper"}, {"result", "damaged"}}),
            0);
  EXPECT_TRUE(!entry.has_value() || HoldsArtifact(entry->folder));
  const std::optional<std::string> note =
      (*next)->facts().ReadNote(key, "verdict");
  EXPECT_TRUE(!note || note == "one verdict" || note == "another verdict");

  // And it works on.
  EXPECT_NE(*(*next)->entries().TryLock(key), nullptr);
  const std::string staged = *(*next)->entries().NewStagingFolder(key);
  StageArtifact(staged, key);
  const auto committed = (*next)->entries().Commit(key, staged);
  EXPECT_TRUE(committed.ok()) << committed.status();
  EXPECT_TRUE(committed.ok() && HoldsArtifact(committed->folder));
  return true;
}

TEST_P(CrashTest, AtEveryFileOperation) {
  const auto& [moment, lose_power] = GetParam();
  int n = 0;
  while (DieAt(n, moment, lose_power)) ++n;
  EXPECT_GT(n, 50);
}

INSTANTIATE_TEST_SUITE_P(All, CrashTest,
                         testing::Combine(testing::Values(Moment::kBefore,
                                                          Moment::kHalfway,
                                                          Moment::kAfter),
                                          testing::Bool()));

// A real process, really killed, at a moment that nobody chose: after as many
// steps of progress as the round says, plus a random piece of a commit.
TEST(KillTest, NextDaemonNeverSeesADamagedEntry) {
  constexpr int kRounds = 50;
  constexpr int kKeys = 4;
  spdlog::set_level(spdlog::level::off);
  TempFolder folder(TempFolder::Where::kMemory);
  const std::string root = folder / "cache";
  std::mt19937 random(12345);
  int found = 0;
  int killed_while_writing = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    int progress[2];
    ASSERT_EQ(pipe(progress), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int n = 0;; ++n) {
        if (write(progress[1], "x", 1) != 1) _exit(1);
        Work(root, Files::Real(), KeyOf(n % kKeys));
      }
    }
    close(progress[1]);
    char step;
    for (int i = 0; i <= round % kKeys; ++i) {
      ASSERT_EQ(read(progress[0], &step, 1), 1);
    }
    // Spins: a piece of work on this side, of random length, while the child
    // works.
    volatile unsigned spin =
        std::uniform_int_distribution<unsigned>(0, 4'000'000)(random);
    while (spin > 0) spin = spin - 1;
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(progress[0]);

    const auto left = Files::Real().List(root + "/v1/staging");
    if (left.ok() && !left->empty()) ++killed_while_writing;
    MetricRegistry metrics;
    auto next = KernelCache::Open({.root = root}, Files::Real(), metrics);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_THAT(*Files::Real().List(root + "/v1/staging"), IsEmpty());
    for (int n = 0; n < kKeys; ++n) {
      const std::optional<CacheEntry> entry =
          (*next)->entries().Lookup(KeyOf(n));
      if (!entry.has_value()) continue;
      ++found;
      EXPECT_TRUE(HoldsArtifact(entry->folder));
    }
    EXPECT_EQ(MetricValue(metrics, "stoker_cache_requests_total",
                          {{"layer", "upper"}, {"result", "damaged"}}),
              0);
    EXPECT_NE(*(*next)->entries().TryLock(KeyOf(0)), nullptr);
  }
  // The test would prove nothing if no kill ever hit a commit.
  EXPECT_GT(killed_while_writing, 0);
  EXPECT_GT(found, 0);
  RecordProperty("killed_while_writing", killed_while_writing);
  spdlog::set_level(spdlog::level::info);
}

}  // namespace
}  // namespace stoker
