#include "models/version_policy.h"

namespace stoker {
namespace {

bool OnItsWay(VersionState state) {
  return state == VersionState::kNew || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

// Whether something of `model` that is wanted serves or will not come any more.
bool MayLose(absl::Span<const VersionSnapshot> versions,
             const std::string& model) {
  bool any_wanted = false;
  bool any_serving = false;
  for (const VersionSnapshot& v : versions) {
    if (v.model != model || !v.wanted) continue;
    any_wanted = true;
    if (OnItsWay(v.state)) return false;
    any_serving |= v.state == VersionState::kServing;
  }
  // All wanted versions failed: keep what serves.
  return !any_wanted || any_serving;
}

}  // namespace

std::optional<Action> NextAction(absl::Span<const VersionSnapshot> versions) {
  for (size_t i = 0; i < versions.size(); ++i) {
    if (versions[i].wanted && versions[i].state == VersionState::kNew) {
      return Action{Action::Kind::kLoad, static_cast<int>(i)};
    }
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    const VersionSnapshot& v = versions[i];
    if (v.wanted) continue;
    const bool never_served = OnItsWay(v.state);
    if (never_served ||
        (v.state == VersionState::kServing && MayLose(versions, v.model))) {
      return Action{Action::Kind::kUnload, static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

}  // namespace stoker
