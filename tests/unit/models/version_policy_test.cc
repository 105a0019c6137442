#include "models/version_policy.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stoker {
namespace {

using enum VersionState;
using Kind = Action::Kind;

struct Case {
  std::string sentence;
  std::vector<VersionSnapshot> versions;
  std::optional<Action> expected;
};

VersionSnapshot Replaces(VersionSnapshot v) {
  v.replaces = true;
  return v;
}
VersionSnapshot Restored(VersionSnapshot v) {
  v.restored = true;
  return v;
}
VersionSnapshot HeldBack(VersionSnapshot v) {
  v.held_back = true;
  return v;
}
VersionSnapshot Holds(VersionSnapshot v) {
  v.holds_memory = true;
  return v;
}

const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>{
      {"nothing is wanted, nothing is there", {}, std::nullopt},
      {"a wanted new version is loaded",
       {{"m", 1, kNew, true}},
       Action{Kind::kLoad, 0}},
      {"a version on its way is waited for",
       {{"m", 1, kLoading, true}},
       std::nullopt},
      {"the old one serves on while the new one loads",
       {{"m", 1, kServing, false}, {"m", 2, kLoading, true}},
       std::nullopt},
      {"the old one serves on while the new one warms up",
       {{"m", 1, kServing, false}, {"m", 2, kWarming, true}},
       std::nullopt},
      {"the old one goes when the new one serves",
       {{"m", 1, kServing, false}, {"m", 2, kServing, true}},
       Action{Kind::kUnload, 0}},
      {"the old one stays when the new one failed",
       {{"m", 1, kServing, false}, {"m", 2, kFailed, true}},
       std::nullopt},
      {"the old one goes when one of two new ones serves and the other failed",
       {{"m", 1, kServing, false},
        {"m", 2, kFailed, true},
        {"m", 3, kServing, true}},
       Action{Kind::kUnload, 0}},
      {"the old one stays when it was to be replaced by one that failed",
       {{"m", 1, kServing, false},
        {"m", 1, kFailed, true},
        {"m", 2, kServing, true}},
       std::nullopt},
      {"a model that nobody wants any more goes",
       {{"m", 1, kServing, false}},
       Action{Kind::kUnload, 0}},
      {"what never served goes at once",
       {{"m", 1, kWarming, false}, {"m", 2, kLoading, true}},
       Action{Kind::kUnload, 0}},
      {"loading comes before unloading",
       {{"a", 1, kServing, false}, {"b", 1, kNew, true}},
       Action{Kind::kLoad, 1}},
      {"another model's loading holds nothing up",
       {{"a", 1, kServing, false}, {"b", 1, kLoading, true}},
       Action{Kind::kUnload, 0}},
      {"both wanted versions serve",
       {{"m", 1, kServing, true}, {"m", 2, kServing, true}},
       std::nullopt},
      {"what is gone or failed is left alone",
       {{"m", 1, kUnloaded, false}, {"n", 1, kFailed, false}},
       std::nullopt},
      {"draining is waited for", {{"m", 1, kDraining, false}}, std::nullopt},
      {"the old one goes first where its memory is waited for",
       {Holds({"m", 1, kServing, false}), Replaces({"m", 2, kNew, true})},
       Action{Kind::kUnload, 0}},
      {"also one on its way",
       {Holds({"m", 1, kLoading, false}), Replaces({"m", 2, kNew, true})},
       Action{Kind::kUnload, 0}},
      {"it is waited for while it drains",
       {Holds({"m", 1, kDraining, false}), Replaces({"m", 2, kNew, true})},
       std::nullopt},
      {"and until its memory is free",
       {Replaces({"m", 2, kNew, true}), Holds({"m", 1, kUnloaded, false})},
       std::nullopt},
      {"then the new one is loaded",
       {{"m", 1, kUnloaded, false}, Replaces({"m", 2, kNew, true})},
       Action{Kind::kLoad, 1}},
      {"what is wanted beside it stays",
       {Holds({"m", 1, kServing, true}), Replaces({"m", 2, kNew, true})},
       Action{Kind::kLoad, 1}},
      {"another model's memory is not waited for",
       {Holds({"a", 1, kDraining, false}), Replaces({"m", 2, kNew, true})},
       Action{Kind::kLoad, 1}},
      {"what was stopped for one that failed comes back",
       {{"m", 2, kFailed, true}, Restored({"m", 1, kNew, false})},
       Action{Kind::kLoad, 1}},
      {"not before its time",
       {{"m", 2, kFailed, true}, HeldBack(Restored({"m", 1, kNew, false}))},
       std::nullopt},
      {"not before the memory of what failed is free",
       {{"m", 2, kFailed, true},
        Restored({"m", 1, kNew, false}),
        Holds({"m", 0, kUnloaded, false})},
       std::nullopt},
      {"on its way back it is not stopped",
       {{"m", 2, kFailed, true}, Restored({"m", 1, kLoading, false})},
       std::nullopt},
      {"two that were stopped come back beside each other",
       {{"m", 3, kFailed, true},
        Holds(Restored({"m", 1, kServing, false})),
        Restored({"m", 2, kNew, false})},
       Action{Kind::kLoad, 2}},
      {"it waits where something else is on its way",
       {{"m", 2, kFailed, true},
        {"m", 3, kLoading, true},
        Restored({"m", 1, kNew, false})},
       std::nullopt},
      {"it is not needed where something else serves",
       {{"m", 2, kFailed, true},
        {"m", 3, kServing, true},
        Restored({"m", 1, kNew, false})},
       Action{Kind::kUnload, 2}},
      {"it does not come back for a model that nobody wants",
       {Restored({"m", 1, kWarming, false})},
       Action{Kind::kUnload, 0}},
      {"it goes for the next that waits for memory",
       {Holds(Restored({"m", 1, kServing, false})),
        Replaces({"m", 3, kNew, true})},
       Action{Kind::kUnload, 0}},
  };
  return *cases;
}

TEST(VersionPolicyTest, Table) {
  for (const Case& c : Cases()) {
    EXPECT_EQ(NextAction(c.versions), c.expected) << c.sentence;
  }
}

TEST(VersionPolicyTest, IsIdempotent) {
  for (const Case& c : Cases()) {
    EXPECT_EQ(NextAction(c.versions), NextAction(c.versions)) << c.sentence;
  }
}

}  // namespace
}  // namespace stoker
