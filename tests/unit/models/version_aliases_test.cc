#include "models/version_aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Alias = VersionAliases::Alias;

class VersionAliasesTest : public ::testing::Test {
 protected:
  VersionAliases::ByName Settle(const std::set<int64_t>& serving) {
    aliases_.Settle("model",
                    [&](int64_t version) { return serving.contains(version); });
    return aliases_.now();
  }
  VersionAliases aliases_;
};

TEST_F(VersionAliasesTest, OneMovesWhenTheOtherServes) {
  aliases_.Want({{"stable", {1, 0}}});
  EXPECT_THAT(Settle({1}), ElementsAre(Pair("stable", Alias{1, 0})));
  EXPECT_FALSE(aliases_.Holds(1));  // nothing is to take its place
  aliases_.Want({{"stable", {2, 100}}});
  EXPECT_THAT(Settle({1}), ElementsAre(Pair("stable", Alias{1, 0})));
  EXPECT_TRUE(aliases_.Holds(1));
  EXPECT_FALSE(aliases_.Holds(2));
  EXPECT_THAT(Settle({1, 2}), ElementsAre(Pair("stable", Alias{2, 100})));
  EXPECT_FALSE(aliases_.Holds(1));
}

TEST_F(VersionAliasesTest, WhereNoneServesItMeansWhatItIsTo) {
  aliases_.Want({{"stable", {1, 0}}, {"canary", {2, 0}}});
  EXPECT_THAT(Settle({}), ElementsAre(Pair("canary", Alias{2, 0}),
                                      Pair("stable", Alias{1, 0})));
  aliases_.Want({{"stable", {3, 0}}});
  EXPECT_THAT(Settle({}), ElementsAre(Pair("stable", Alias{3, 0})));
}

TEST_F(VersionAliasesTest, OneThatIsNoneAnyMore) {
  aliases_.Want({{"stable", {1, 0}}, {"canary", {2, 0}}});
  Settle({1, 2});
  aliases_.Want({{"stable", {1, 0}}});
  EXPECT_FALSE(aliases_.Holds(2));
  EXPECT_THAT(Settle({1, 2}), ElementsAre(Pair("stable", Alias{1, 0})));
  aliases_.Want({});
  EXPECT_FALSE(aliases_.Holds(1));
  EXPECT_THAT(Settle({1, 2}), IsEmpty());
}

}  // namespace
}  // namespace stoker
