// Notes beside artifacts and records of models.
#include "kernel_cache/fact_store.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "tests/fakes/faulty_files.h"
#include "tests/unit/kernel_cache/kernel_cache_fixture.h"

namespace stoker {
namespace {

using ::testing::IsEmpty;

constexpr RecordKind kTraffic = {.name = "traffic",
                                 .suffix = ".json",
                                 .max_bytes = 1 << 20,
                                 .from_layers = true};

class FactStoreTest : public KernelCacheFixture {};

TEST_F(FactStoreTest, NotesAreReplacedAndBelongToAKey) {
  const auto cache = Open();
  EXPECT_EQ(cache->facts().ReadNote(key_, "verdict.json"), std::nullopt);
  ASSERT_TRUE(cache->facts().WriteNote(key_, "verdict.json", "one").ok());
  ASSERT_TRUE(cache->facts().WriteNote(key_, "verdict.json", "two").ok());
  EXPECT_EQ(cache->facts().ReadNote(key_, "verdict.json"), "two");
  EXPECT_EQ(cache->facts().ReadNote(key_, "other"), std::nullopt);
  EXPECT_EQ(cache->facts().ReadNote(other_key_, "verdict.json"), std::nullopt);
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (const std::string name :
       {"", ".", "..", ".hidden", "a/b", "../x", "Upper", "sp ace"}) {
    EXPECT_EQ(cache->facts().WriteNote(key_, name, "x").code(),
              absl::StatusCode::kInvalidArgument)
        << name;
    EXPECT_EQ(cache->facts().ReadNote(key_, name), std::nullopt) << name;
  }
}

TEST_F(FactStoreTest, RecordsAreKeptByModelName) {
  auto cache = Open();
  EXPECT_TRUE(
      absl::IsNotFound(cache->facts().ReadRecord("minilm", kTraffic).status()));
  ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTraffic, "first").ok());
  ASSERT_TRUE(cache->facts()
                  .WriteRecord("..", kTraffic, "of a model with an odd name")
                  .ok());
  ASSERT_TRUE(Open()->facts().WriteRecord("minilm", kTraffic, "second").ok());
  EXPECT_EQ(cache->facts().ReadRecord("minilm", kTraffic).value(), "second");
  EXPECT_EQ(cache->facts().ReadRecord("..", kTraffic).value(),
            "of a model with an odd name");
  EXPECT_THAT(Names("traffic"), testing::ElementsAre("...json", "minilm.json"));
  EXPECT_THAT(Names("staging"), IsEmpty());
  for (const char* name : {"", "a/b", "../a", "a\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        cache->facts().WriteRecord(name, kTraffic, "")));
    EXPECT_TRUE(absl::IsInvalidArgument(
        cache->facts().ReadRecord(name, kTraffic).status()));
  }
}

TEST_F(FactStoreTest, OnlySomeKindsAreTakenFromLayers) {
  ASSERT_TRUE(
      Open()->facts().WriteRecord("minilm", kTraffic, "of a layer").ok());
  MetricRegistry metrics;
  auto upper = KernelCache::Open({.root = folder_ / "upper", .layers = {root_}},
                                 Files::Real(), metrics);
  ASSERT_TRUE(upper.ok()) << upper.status();
  FactStore& facts = (*upper)->facts();
  EXPECT_EQ(facts.ReadRecord("minilm", kTraffic).value(), "of a layer");
  RecordKind own = kTraffic;
  own.from_layers = false;
  EXPECT_TRUE(absl::IsNotFound(facts.ReadRecord("minilm", own).status()));
}

TEST_F(FactStoreTest, DamagedRecordsAreSetAside) {
  auto cache = Open();
  ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTraffic, "damaged").ok());
  cache->facts().SetRecordAside("minilm", kTraffic, "it is no JSON");
  EXPECT_TRUE(
      absl::IsNotFound(cache->facts().ReadRecord("minilm", kTraffic).status()));
  EXPECT_THAT(Names("traffic"), testing::ElementsAre("minilm.json.damaged"));
  cache->facts().SetRecordAside("minilm", kTraffic, "there is nothing");

  const std::string large(static_cast<size_t>(kTraffic.max_bytes) + 1, ' ');
  ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTraffic, large).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      cache->facts().ReadRecord("minilm", kTraffic).status()));
}

TEST_F(FactStoreTest, AFullDiskKeepsTheRecordThatWasThere) {
  FaultyFiles files(Files::Real());
  auto cache = Open(files);
  ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTraffic, "before").ok());
  for (int n = 0;; ++n) {
    const int first = files.operations();
    files.FailAt(first + n, absl::ResourceExhaustedError("disk full"));
    const bool done =
        cache->facts().WriteRecord("minilm", kTraffic, "after").ok();
    const bool was_reached = files.operations() > first + n;
    files.FailAt(std::numeric_limits<int>::max(), absl::OkStatus());
    const std::string now =
        cache->facts().ReadRecord("minilm", kTraffic).value();
    if (!was_reached) {
      EXPECT_EQ(now, "after");
      return;
    }
    EXPECT_EQ(now, done ? "after" : "before");
    ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTraffic, "before").ok());
  }
}

}  // namespace
}  // namespace stoker
