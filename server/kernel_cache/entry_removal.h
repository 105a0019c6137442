// How entries of the root go: set aside in quarantine, for people to look at,
// or for good. Notes beside an entry go first, as they were about that
// artifact: whoever puts another one in its place starts without evidence.
//
// Private to this room. Thread-safe; the files' locks order several daemons.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/cache_root.h"
#include "kernel_cache/fact_store.h"

namespace stoker {

class EntryRemoval {
 public:
  // Both outlive this object.
  EntryRemoval(CacheRoot& root, FactStore& facts)
      : root_(root), facts_(facts) {}

  // Moves the entry to quarantine, with the reason beside it; where it is now.
  // NOT_FOUND when there is none. The caller holds the key's Lock::kMove.
  absl::StatusOr<std::string> SetAside(const ArtifactKey& key,
                                       std::string_view reason);

  // Takes an entry away that nobody uses, if `check`, which is asked when
  // nobody can get at the entry any more, says so; its error is returned as it
  // is. UNAVAILABLE when the entry is in use, or when nobody can tell.
  absl::Status RemoveUnused(const ArtifactKey& key,
                            absl::FunctionRef<absl::Status()> check);

 private:
  using Lock = CacheRoot::Lock;

  CacheRoot& root_;
  FactStore& facts_;
};

}  // namespace stoker
