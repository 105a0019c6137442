// The door of the room that knows libtorch: opens programs and artifacts.
//
// Thread-safe; torch's loaders race (pytorch #194128), so opens are serialised
// inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/executable.h"
#include "runner/int8_linears.h"

namespace stoker {

// A program's weights and constants, once for each device: mapped from its .pt2
// (the page cache is shared by all processes), or copied to a GPU. Borrowed by
// every compiled artifact of the version there.
class WeightStore;

// The runs of a compiled form as one CUDA graph.
struct CapturedGraph {
  std::shared_ptr<Executable> executable;  // tier "graph"
  int64_t bytes = 0;                       // of device memory
};

class FreeCores;
class SpareMemory;

// One for each device.
class ExecutableLoader {
 public:
  virtual ~ExecutableLoader() = default;

  // The state of runs on the calling thread, which gets `threads` compute
  // threads.
  virtual std::unique_ptr<ExecutionContext> NewContext(int threads) = 0;

  // INVALID_ARGUMENT for pickled, misplaced or inconsistent entries.
  virtual absl::StatusOr<std::shared_ptr<WeightStore>> MapWeights(
      const std::string& pt2_path) = 0;

  // Has what is opened with `weights` from now on compute its linear layers,
  // where they are worth packing a weight for, with eight-bit integers in place
  // of float32. What is returned lives as long as `weights`; null where that is
  // not to be had.
  virtual Int8Linears* UseInt8(WeightStore& /*weights*/) { return nullptr; }

  // The eager form. On a GPU it computes with `weights`, those of the program
  // there, unless it might write into them: then with a copy of its own. On the
  // CPU it has its own, and `weights` may be null.
  virtual absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& pt2_path, std::shared_ptr<WeightStore> weights) = 0;

  // Opens a verified cache entry and binds `weights`. It has not run yet: the
  // first run must be alone (pytorch #181941), before it is published.
  // FAILED_PRECONDITION when the host lacks the artifact's instruction set or a
  // constant is missing.
  virtual absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> weights) = 0;

  // Of the host's memory: what `weights` take besides the mapped program, laid
  // out for oneDNN. Never waits.
  virtual int64_t PackedBytes(const WeightStore& /*weights*/) const {
    return 0;
  }

  // Where versions say what they can do without when memory is short; null:
  // nobody asks here.
  virtual SpareMemory* spare_memory() { return nullptr; }

  // Whether so many bytes of weights would find room if `freed` more were free
  // than are, and all that versions can do without.
  virtual bool CouldHold(int64_t /*bytes*/, int64_t /*freed*/) { return true; }

  // Whether Capture is more than an error here.
  virtual bool captures() const { return false; }

  // Captures a run of `compiled`, which OpenAot gave and which has run, on the
  // first of `samples`; on the thread of `context`, where the result runs too.
  // The result answers inputs of those shapes by a replay, checked here on each
  // sample, all of the same shapes, to be equal bit by bit to a run: a value of
  // the first that the capture has frozen shows on others. Inputs of other
  // shapes it answers by `compiled`.
  // FAILED_PRECONDITION: this form can't be captured; RESOURCE_EXHAUSTED: the
  // GPU's memory doesn't hold it, or it takes more than `max_bytes`.
  virtual absl::StatusOr<CapturedGraph> Capture(
      // NOLINTNEXTLINE(performance-unnecessary-value-param): overrides keep it
      std::shared_ptr<Executable> /*compiled*/, ExecutionContext& /*context*/,
      absl::Span<const std::vector<Tensor>> /*samples*/,
      int64_t /*max_bytes*/) {
    return absl::UnimplementedError("graphs are captured on GPUs only");
  }
};

// libtorch_cpu's. Its contexts' runs take as many threads as have a core now;
// null: all that they were given. `free_cores` outlives the contexts.
std::unique_ptr<ExecutableLoader> MakeCpuLoader(
    const FreeCores* free_cores = nullptr);

}  // namespace stoker
