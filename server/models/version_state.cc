#include "models/version_state.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

using enum VersionState;

// Every legal move. Nothing leaves kResting, kUnloaded or kFailed: a reload is
// a new version object.
constexpr std::array<std::pair<VersionState, VersionState>, 12> kMoves = {{
    {kNew, kLoading},
    {kLoading, kWarming},
    {kLoading, kServing},
    {kWarming, kServing},
    {kServing, kDraining},
    {kDraining, kUnloaded},
    {kDraining, kResting},
    {kNew, kUnloaded},      // no longer wanted before its turn came
    {kLoading, kUnloaded},  // likewise while loading
    {kWarming, kUnloaded},
    {kLoading, kFailed},
    {kNew, kFailed},  // the repository could not read it
}};

}  // namespace

std::string_view VersionStateName(VersionState state) {
  switch (state) {
    case kNew:
      return "new";
    case kLoading:
      return "loading";
    case kWarming:
      return "warming";
    case kServing:
      return "serving";
    case kDraining:
      return "draining";
    case kResting:
      return "resting";
    case kUnloaded:
      return "unloaded";
    case kFailed:
      return "failed";
  }
  return "?";
}

absl::Status CheckTransition(VersionState from, VersionState to) {
  for (const auto& [a, b] : kMoves) {
    if (a == from && b == to) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("a version that is ", Absl(VersionStateName(from)),
                   " can't become ", Absl(VersionStateName(to))));
}

}  // namespace stoker
