#include "kernel_cache/eviction.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000'000);

ArtifactKey KeyOf(int n) {
  return ArtifactKey(KeyFactors{{"graph", std::to_string(n)}});
}

// Entry n was last used n hours ago and has 100 bytes.
std::vector<EvictionCandidate> Entries(int count) {
  std::vector<EvictionCandidate> entries;
  for (int n = 0; n < count; ++n) {
    entries.push_back({KeyOf(n), 100, kNow - absl::Hours(n), false});
  }
  return entries;
}

std::vector<ArtifactKey> Chosen(std::vector<EvictionCandidate> entries,
                                const CacheLimits& limits) {
  std::vector<ArtifactKey> keys;
  for (const Eviction& one :
       ChooseEvictions(std::move(entries), limits, kNow)) {
    keys.push_back(one.key);
  }
  return keys;
}

TEST(EvictionTest, NothingGoesWithoutLimitsOrWithinThem) {
  EXPECT_THAT(Chosen(Entries(5), {}), IsEmpty());
  EXPECT_THAT(Chosen(Entries(5), {.max_bytes = 500, .max_age = absl::Hours(4)}),
              IsEmpty());
}

TEST(EvictionTest, TheLeastRecentlyUsedGoFirst) {
  EXPECT_THAT(Chosen(Entries(5), {.max_bytes = 300}),
              ElementsAre(KeyOf(4), KeyOf(3)));
  EXPECT_THAT(Chosen(Entries(5), {.max_bytes = 299}),
              ElementsAre(KeyOf(4), KeyOf(3), KeyOf(2)));
  EXPECT_EQ(Chosen(Entries(5), {.max_bytes = 1}).size(), 5u);
}

TEST(EvictionTest, WhatIsTooOldGoes) {
  const auto evictions =
      ChooseEvictions(Entries(5), {.max_age = absl::Hours(3)}, kNow);
  ASSERT_EQ(evictions.size(), 1u);
  EXPECT_EQ(evictions[0].key, KeyOf(4));
  EXPECT_EQ(evictions[0].reason, "age");
}

TEST(EvictionTest, AgeCountsBeforeSize) {
  const auto evictions = ChooseEvictions(
      Entries(5), {.max_bytes = 300, .max_age = absl::Hours(3)}, kNow);
  ASSERT_EQ(evictions.size(), 2u);
  EXPECT_EQ(evictions[0].reason, "age");
  EXPECT_EQ(evictions[1].reason, "size");
}

TEST(EvictionTest, PinnedEntriesCountAndStay) {
  std::vector<EvictionCandidate> entries = Entries(4);
  entries[3].pinned = true;
  EXPECT_THAT(Chosen(entries, {.max_bytes = 200, .max_age = absl::Hours(1)}),
              ElementsAre(KeyOf(2), KeyOf(1)));
  for (EvictionCandidate& entry : entries) entry.pinned = true;
  EXPECT_THAT(Chosen(entries, {.max_bytes = 1}), IsEmpty());
}

// An entry that was used before the clock went back is used now, not in a
// hundred years.
TEST(EvictionTest, TimesInTheFutureAreNow) {
  std::vector<EvictionCandidate> entries = Entries(3);
  entries[2].last_used = kNow + absl::Hours(24 * 365 * 100);
  EXPECT_THAT(Chosen(entries, {.max_bytes = 200}), ElementsAre(KeyOf(1)));
  EXPECT_THAT(Chosen(entries, {.max_age = absl::Minutes(30)}),
              ElementsAre(KeyOf(1)));
}

}  // namespace
}  // namespace stoker
