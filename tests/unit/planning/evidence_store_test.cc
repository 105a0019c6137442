// What is kept of an artifact, for whom it holds, and which of several timings
// counts.
#include "planning/evidence_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/files.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"
#include "planning/note_names.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/planning/encoder_spec.h"

namespace stoker {
namespace {

const ArtifactId kArtifact{ArtifactKey(KeyFactors{{"graph", "g"}}),
                           std::string(64, '1')};

class EvidenceStoreTest : public testing::Test {
 protected:
  EvidenceStoreTest() {
    auto opened =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    cache_ = *std::move(opened);
  }

  EvidenceStore Store(const ModelSpec& spec, bool trusted = true) {
    return EvidenceStore(spec, &cache_->facts(), {"here", 2}, trusted);
  }

  const TempFolder folder_{TempFolder::Where::kMemory};
  MetricRegistry metrics_;
  std::unique_ptr<KernelCache> cache_;
  const ModelSpec spec_ = Encoder();
};

TEST_F(EvidenceStoreTest, AVerdictTakesBothHalvesOrARefusal) {
  const EvidenceStore store = Store(spec_);
  EXPECT_FALSE(store.ReadVerdict(kArtifact).has_value());
  store.WriteProfit(kArtifact, {.worth = true, .measured_on = "here"});
  EXPECT_FALSE(store.ReadVerdict(kArtifact).has_value());
  store.WriteParity(kArtifact, {.equal = true});
  ASSERT_TRUE(store.ReadVerdict(kArtifact).has_value());
  EXPECT_TRUE(store.ReadVerdict(kArtifact)->promote());
  EXPECT_FALSE(Store(spec_, /*trusted=*/false).ReadVerdict(kArtifact));
  // Neither is about another artifact of the key.
  const ArtifactId other{kArtifact.key, std::string(64, '2')};
  EXPECT_FALSE(store.ReadParity(other).has_value());
  EXPECT_FALSE(store.ReadProfit(other).has_value());
  store.WriteParity(other, {.reason = "output 0 differs"});
  ASSERT_TRUE(store.ReadVerdict(other).has_value());
  EXPECT_EQ(store.ReadVerdict(other)->refusal(), "parity");
  EXPECT_EQ(store.ReadVerdict(other)->reason(), "output 0 differs");
}

TEST_F(EvidenceStoreTest, OtherWeightsAreAsFastAndMayAnswerOtherwise) {
  Store(spec_).WriteParity(kArtifact, {.equal = true});
  Store(spec_).WriteProfit(kArtifact, {.worth = true, .measured_on = "here"});
  ModelSpec retrained = spec_;
  retrained.weights_digest = "4567";
  EXPECT_FALSE(Store(retrained).ReadParity(kArtifact).has_value());
  EXPECT_TRUE(Store(retrained).ReadProfit(kArtifact).has_value());
}

TEST_F(EvidenceStoreTest, TheTimingThatIsClosestCounts) {
  const EvidenceStore store = Store(spec_);
  const auto timed = [&](const char* machine, int threads, double speedup) {
    store.WriteProfit(
        kArtifact,
        {.speedup = speedup, .measured_on = machine, .threads = threads});
  };
  const auto best = [&] { return store.ReadProfit(kArtifact)->speedup; };
  timed("elsewhere", 4, 1);
  EXPECT_EQ(best(), 1);
  timed("another", 2, 2);
  EXPECT_EQ(best(), 2);
  timed("here", 1, 3);
  EXPECT_EQ(best(), 3);
  timed("here", 2, 4);
  EXPECT_EQ(best(), 4);
  timed("here", 2, 5);
  EXPECT_EQ(best(), 5);
}

TEST_F(EvidenceStoreTest, WhatAGraphGainsIsAMatterOfThisMachine) {
  Store(spec_).WriteGraphGain(kArtifact,
                              {.speedup = 2, .measured_on = "elsewhere"});
  EXPECT_FALSE(Store(spec_).ReadGraphGain(kArtifact).has_value());
  Store(spec_).WriteGraphGain(kArtifact, {.speedup = 3, .measured_on = "here"});
  EXPECT_EQ(Store(spec_).ReadGraphGain(kArtifact)->speedup, 3);
}

// Of another time, or cut short by a full disk.
TEST_F(EvidenceStoreTest, WhatCannotBeReadIsNotKnown) {
  for (const std::string& name :
       {ParityNoteName(kArtifact, spec_),
        ProfitNoteName(kArtifact, ComputePrecision::kFloat32, "here", 2),
        GraphNoteName(kArtifact, "here")}) {
    ASSERT_TRUE(cache_->facts()
                    .WriteNote(kArtifact.key, name, R"({"promote": true})")
                    .ok());
  }
  EXPECT_FALSE(Store(spec_).ReadParity(kArtifact).has_value());
  EXPECT_FALSE(Store(spec_).ReadProfit(kArtifact).has_value());
  EXPECT_FALSE(Store(spec_).ReadGraphGain(kArtifact).has_value());
}

}  // namespace
}  // namespace stoker
