// Which tensors of a request lie in clients' shared memory, and the raw
// contents of those that don't.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rpc/request_reader.h"
#include "rpc/shared_memory.h"
#include "tensor/tensor.h"

namespace stoker {

struct ModelSpec;

struct SharedTensors {
  // By position in the request; a null region: its elements are in the message.
  // Empty: so are all.
  std::vector<SharedMemoryRange> inputs;
  std::vector<SharedMemoryRange> outputs;

  // Null: it lies in the message.
  const SharedMemoryRange* Input(size_t position) const;
  // How many of the first `count` inputs lie in the message.
  size_t InMessage(size_t count) const;
  size_t input_bytes() const;
};

// Reads the parameters of all tensors. `regions` is null where shared memory
// isn't allowed. INVALID_ARGUMENT; NOT_FOUND; UNIMPLEMENTED.
absl::StatusOr<SharedTensors> FindSharedTensors(
    const RequestView& request, const SharedMemoryRegions* regions);

// Writes each output to its place, and takes its elements out of `outputs`,
// which are all of the model's. `places` are those of the outputs that
// `indices` selects, in that order. INVALID_ARGUMENT: one has more bytes than
// its place; and what SharedMemoryRegion::Write says.
absl::Status WriteSharedOutputs(const ModelSpec& spec,
                                absl::Span<const SharedMemoryRange> places,
                                absl::Span<const int> indices,
                                absl::Span<Tensor> outputs);

}  // namespace stoker
