// The states of a model version and the only table of moves between them.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace stoker {

enum class VersionState {
  kNew,       // wanted, nothing done
  kLoading,   // program being read, weights mapped
  kWarming,   // loaded, ready_when: warm, buckets not all settled
  kServing,   // published: requests are taken
  kDraining,  // no new requests; the last handles are being waited for
  kResting,   // its memory went to others; a request has it loaded again
  kUnloaded,
  kFailed,  // with a reason; never serves
};

std::string_view VersionStateName(VersionState state);  // "serving"

// FAILED_PRECONDITION naming both states when the move is not in the table.
absl::Status CheckTransition(VersionState from, VersionState to);

}  // namespace stoker
