// A serialised inference.RepositoryModelLoadRequest, which may hold programs:
// read without anything being built of what isn't asked for, since generated
// code takes a hundred bytes for a parameter of four.
//
// Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "repository/snapshot_source.h"
#include "wire/byte_chain.h"

namespace stoker {

struct LoadRequest {
  std::string repository;
  std::string model;
  ModelOverride override;
};

// INVALID_ARGUMENT: it is no such message, it has more than a hundred
// parameters, or one is of another type. Copies what it returns.
absl::StatusOr<LoadRequest> ReadLoadRequest(const ByteChain& message);
// Its model alone, quickly; nullopt where ReadLoadRequest fails for what isn't
// in a parameter.
std::optional<std::string> ModelOfLoadRequest(const ByteChain& message);

}  // namespace stoker
