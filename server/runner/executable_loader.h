// The door of the room that knows libtorch: opens programs and artifacts.
//
// Thread-safe; torch's loaders race (pytorch #194128), so opens are serialised
// inside.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runner/executable.h"

namespace stoker {

// A program's weights and constants, mapped once from its .pt2 (the page cache
// is shared by all processes) and borrowed by every compiled artifact of the
// version.
class WeightStore;

class ExecutableLoader {
 public:
  virtual ~ExecutableLoader() = default;

  // The state of runs on the calling thread, which gets `threads` compute
  // threads.
  virtual std::unique_ptr<ExecutionContext> NewContext(int threads) = 0;

  // INVALID_ARGUMENT for pickled, misplaced or inconsistent entries.
  virtual absl::StatusOr<std::shared_ptr<WeightStore>> MapWeights(
      const std::string& pt2_path) = 0;

  // The eager form, with a copy of the weights of its own (nativert has no
  // hook).
  virtual absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& pt2_path) = 0;

  // Opens a verified cache entry and binds `weights`. It has not run yet: the
  // first run must be alone (pytorch #181941), before it is published.
  // FAILED_PRECONDITION when the host lacks the artifact's instruction set or a
  // constant is missing.
  virtual absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> weights) = 0;
};

// libtorch_cpu's. `kernel threads` are set per ExecutionContext.
std::unique_ptr<ExecutableLoader> MakeCpuLoader();

}  // namespace stoker
