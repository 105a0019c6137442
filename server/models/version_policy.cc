#include "models/version_policy.h"

namespace stoker {
namespace {

bool OnItsWay(VersionState state) {
  return state == VersionState::kNew || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

// Whether nothing is lost with a version that nobody wants any more: what takes
// its place serves, or nothing is to.
bool MayGo(absl::Span<const VersionSnapshot> versions,
           const VersionSnapshot& unwanted) {
  bool any_wanted = false;
  bool any_serves = false;
  bool same_number_failed = false;
  for (const VersionSnapshot& v : versions) {
    if (v.model != unwanted.model || !v.wanted) continue;
    any_wanted = true;
    if (OnItsWay(v.state)) return false;
    any_serves |= v.state == VersionState::kServing;
    same_number_failed |=
        v.version == unwanted.version && v.state == VersionState::kFailed;
  }
  // What was to take its place failed: keep what serves.
  return !any_wanted || (any_serves && !same_number_failed);
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
        (v.state == VersionState::kServing && MayGo(versions, v))) {
      return Action{Action::Kind::kUnload, static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

}  // namespace stoker
