#include "models/version_policy.h"

#include <algorithm>

namespace stoker {
namespace {

using Versions = absl::Span<const VersionSnapshot>;

// Whether nothing is lost with a version that nobody wants any more: what takes
// its place serves, or nothing is to, or that waits for it to go.
bool MayGo(Versions versions, const VersionSnapshot& unwanted) {
  bool any_wanted = false;
  bool any_on_its_way = false;
  bool any_serves = false;
  bool same_number_failed = false;
  for (const VersionSnapshot& v : versions) {
    if (v.model != unwanted.model || !v.wanted) continue;
    any_wanted = true;
    if (v.replaces && v.state == VersionState::kNew) return true;
    any_on_its_way |= OnItsWay(v.state);
    any_serves |= v.state == VersionState::kServing;
    same_number_failed |=
        v.version == unwanted.version && v.state == VersionState::kFailed;
  }
  if (any_on_its_way) return false;
  // What was to take its place failed: keep what serves.
  return !any_wanted || (any_serves && !same_number_failed);
}

// Whether the memory is free of what a version takes the place of.
bool HasRoom(Versions versions, const VersionSnapshot& coming) {
  return std::none_of(versions.begin(), versions.end(), [&](const auto& v) {
    return v.model == coming.model && !v.wanted && v.holds_memory &&
           (coming.wanted || !v.restored);
  });
}

bool MayLoad(Versions versions, const VersionSnapshot& coming) {
  if (coming.state != VersionState::kNew || coming.held_back) return false;
  if (coming.wanted && !coming.replaces) return true;
  if (!coming.wanted && !coming.restored) return false;
  if (!HasRoom(versions, coming)) return false;
  // One that comes back: its place is still empty.
  const auto takes_it = [&](const VersionSnapshot& v) {
    return v.model == coming.model && v.wanted && OnItsWay(v.state);
  };
  return coming.wanted ||
         (!MayGo(versions, coming) &&
          std::none_of(versions.begin(), versions.end(), takes_it));
}

bool MayUnload(Versions versions, const VersionSnapshot& v) {
  if (v.wanted) return false;
  if (OnItsWay(v.state)) return !v.restored || MayGo(versions, v);
  return v.state == VersionState::kServing && MayGo(versions, v);
}

}  // namespace

bool OnItsWay(VersionState state) {
  return state == VersionState::kNew || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

std::optional<Action> NextAction(absl::Span<const VersionSnapshot> versions) {
  for (size_t i = 0; i < versions.size(); ++i) {
    if (MayLoad(versions, versions[i])) {
      return Action{Action::Kind::kLoad, static_cast<int>(i)};
    }
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    if (MayUnload(versions, versions[i])) {
      return Action{Action::Kind::kUnload, static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

}  // namespace stoker
