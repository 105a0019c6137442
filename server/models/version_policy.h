// Which version to load or unload next. Pure, stateless, idempotent: the same
// snapshots give the same action, and carrying it out brings the world closer
// to what is wanted. Prefers availability: a version goes only when no wanted
// version of its model is still on its way, or when it failed and never served;
// unless what is wanted waits for its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "models/version_state.h"

namespace stoker {

struct VersionSnapshot {
  std::string model;
  int64_t version = 0;
  VersionState state = VersionState::kNew;
  bool wanted = true;
  // Loads only when what it takes the place of is gone from memory:
  // `update: replace`.
  bool replaces = false;
  // Was stopped for one that then failed, and is to serve in its stead.
  bool restored = false;
  bool held_back = false;  // not yet
  // Its memory isn't free, whatever its state says.
  bool holds_memory = false;
};

struct Action {
  enum class Kind { kLoad, kUnload };
  Kind kind = Kind::kLoad;
  int index = 0;  // into the snapshots
  friend bool operator==(const Action&, const Action&) = default;
};

// Neither serving yet nor over.
bool OnItsWay(VersionState state);

std::optional<Action> NextAction(absl::Span<const VersionSnapshot> versions);

}  // namespace stoker
