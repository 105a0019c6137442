#include "models/version_state.h"

#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

using enum VersionState;
using testing::HasSubstr;

constexpr VersionState kAll[] = {kNew,      kLoading, kWarming,  kServing,
                                 kDraining, kResting, kUnloaded, kFailed};

TEST(VersionStateTest, OnlyTheMovesOfTheTableAreLegal) {
  const std::set<std::pair<VersionState, VersionState>> legal = {
      {kNew, kLoading},     {kLoading, kWarming},  {kLoading, kServing},
      {kWarming, kServing}, {kServing, kDraining}, {kDraining, kUnloaded},
      {kNew, kUnloaded},    {kLoading, kUnloaded}, {kWarming, kUnloaded},
      {kLoading, kFailed},  {kNew, kFailed},       {kDraining, kResting},
  };
  for (VersionState from : kAll) {
    for (VersionState to : kAll) {
      EXPECT_EQ(CheckTransition(from, to).ok(), legal.count({from, to}) == 1)
          << VersionStateName(from) << " -> " << VersionStateName(to);
    }
  }
}

TEST(VersionStateTest, ARefusedMoveNamesBothStates) {
  const absl::Status status = CheckTransition(kUnloaded, kServing);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unloaded"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("serving"));
}

TEST(VersionStateTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (VersionState state : kAll) names.insert(VersionStateName(state));
  EXPECT_EQ(names.size(), std::size(kAll));
}

}  // namespace
}  // namespace stoker
