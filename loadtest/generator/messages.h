// The requests of a load test, serialised before it starts: inputs as the
// server describes them, sizes from the scenario's mix or trace, seeded values.
//
// Immutable once made; thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/generator/scenario.h"
#include "loadtest/generator/shared_inputs.h"
#include "loadtest/generator/trace.h"
#include "open_inference.pb.h"

namespace stoker::loadtest {

struct Messages {
  // Serialised ModelInferRequests; sending one copies no bytes.
  std::vector<grpc::ByteBuffer> buffers;
  // Per buffer, the sizes of the scenario's dimensions.
  std::vector<std::vector<int64_t>> sizes;
  // Request k sends buffers[order[k % order.size()]].
  std::vector<uint32_t> order;
  // From the trace, where it has them.
  std::vector<int64_t> offsets_ns;
  // Where the inputs are, when the scenario wants them in shared memory; else
  // null.
  std::unique_ptr<SharedInputs> shared;

  size_t total_bytes() const;
};

// The sizes of all requests: the trace's rows, or as many draws from the mix as
// the scenario asks for. Needs no server.
absl::StatusOr<Trace> DrawSizes(const Scenario& scenario);

// INVALID_ARGUMENT when the scenario names an input or axis that the model
// lacks, an axis has no size in the scenario (a first axis of -1 counts as a
// batch of 1), a range does not fit the datatype, or all messages together
// would take more than kMaxBytes.
absl::StatusOr<Messages> MakeMessages(
    const Scenario& scenario, const inference::ModelMetadataResponse& model);

constexpr size_t kMaxMessageBytes = size_t{1} << 30;

}  // namespace stoker::loadtest
