#include "models/awaited_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum VersionState;
using enum AwaitedChanges::Source;

class AwaitedChangesTest : public ::testing::Test {
 protected:
  AwaitedChanges::Done Note(const std::string& who) {
    return [this, who](const absl::Status& status) {
      told_.push_back(who + ": " + std::string(status.message()));
    };
  }
  std::vector<std::string> Settle(const std::vector<VersionOutcome>& versions) {
    told_.clear();
    changes_.Settle(versions);
    return told_;
  }

  AwaitedChanges changes_;
  std::vector<std::string> told_;
};

TEST_F(AwaitedChangesTest, ALoadIsOverWhenAllOfItServes) {
  changes_.AwaitLoad("a", kRepository, Note("load"));
  EXPECT_THAT(Settle({{"a", 1, kServing, false}, {"a", 2, kNew}}), IsEmpty());
  EXPECT_THAT(Settle({{"a", 2, kLoading}, {"b", 1, kServing}}), IsEmpty());
  EXPECT_THAT(Settle({{"a", 2, kWarming}, {"a", 3, kServing}}), IsEmpty());
  EXPECT_THAT(Settle({{"a", 2, kServing}, {"b", 1, kFailed}}),
              ElementsAre("load: "));
  EXPECT_THAT(Settle({{"a", 2, kServing}}), IsEmpty());  // told once
}

TEST_F(AwaitedChangesTest, WhatARequestBringsIsLoadedAlone) {
  EXPECT_TRUE(changes_.MayLoad("a", kRequest).ok());
  changes_.AwaitLoad("a", kRepository, Note("load"));
  EXPECT_TRUE(changes_.MayLoad("a", kRepository).ok());
  EXPECT_TRUE(changes_.MayLoad("b", kRequest).ok());
  EXPECT_EQ(changes_.MayLoad("a", kRequest).code(), absl::StatusCode::kAborted);
  Settle({{"a", 1, kServing}});
  EXPECT_TRUE(changes_.MayLoad("a", kRequest).ok());
  changes_.AwaitLoad("a", kRequest, Note("load"));
  EXPECT_FALSE(changes_.MayLoad("a", kRepository).ok());
  EXPECT_FALSE(changes_.MayLoad("a", kRequest).ok());
  changes_.EndLoads("a");
  EXPECT_TRUE(changes_.MayLoad("a", kRepository).ok());
}

TEST_F(AwaitedChangesTest, ALoadThatFailed) {
  changes_.AwaitLoad("a", kRepository, Note("load"));
  EXPECT_THAT(
      Settle({{"a", 1, kServing, false}, {"a", 2, kFailed, true, "no memory"}}),
      ElementsAre("load: failed to load 'a', no version is available: "
                  "version 2: no memory"));
  changes_.AwaitLoad("a", kRepository, Note("load"));
  EXPECT_THAT(
      Settle({{"a", 1, kServing},
              {"a", 2, kFailed, true, "x"},
              {"a", 3, kFailed, true, "y"}}),
      ElementsAre("load: failed to load 'a', versions that are not available: "
                  "2,3: version 2: x; version 3: y"));
  changes_.AwaitLoad("a", kRepository, Note("load"));
  EXPECT_THAT(Settle({{"a", 0, kFailed, true, "model.yaml:1: no"}}),
              ElementsAre("load: failed to load 'a', no version is available: "
                          "model.yaml:1: no"));
}

TEST_F(AwaitedChangesTest, WhatIsUnloadedMeanwhile) {
  changes_.AwaitLoad("a", kRepository, Note("load a"));
  changes_.AwaitLoad("b", kRepository, Note("load b"));
  changes_.EndLoads("a");
  EXPECT_THAT(told_, ElementsAre("load a: failed to load 'a', it was unloaded "
                                 "meanwhile"));
  changes_.AwaitPublication(Note("unload a"));
  EXPECT_THAT(Settle({{"b", 1, kNew}}), ElementsAre("unload a: "));
}

TEST_F(AwaitedChangesTest, TheEnd) {
  changes_.AwaitLoad("a", kRepository, Note("load"));
  changes_.AwaitPublication(Note("unload"));
  changes_.EndAll(absl::UnavailableError("gone"));
  EXPECT_THAT(told_, ElementsAre("load: gone", "unload: gone"));
  EXPECT_THAT(Settle({}), IsEmpty());
}

// Who is told may ask for more.
TEST_F(AwaitedChangesTest, ANewLoadFromWithin) {
  changes_.AwaitPublication([this](const absl::Status&) {
    changes_.AwaitLoad("a", kRepository, Note("load"));
  });
  EXPECT_THAT(Settle({}), IsEmpty());
  EXPECT_THAT(Settle({{"a", 1, kServing}}), ElementsAre("load: "));
}

}  // namespace
}  // namespace stoker
