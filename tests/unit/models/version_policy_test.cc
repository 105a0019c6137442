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
