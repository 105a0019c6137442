// The `parameters` maps of an inference request: which ones mean something
// here, which are refused, and which are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "open_inference.pb.h"

namespace stoker {

using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;

struct RequestParameters {
  // Longest time in the queue; infinite when the request does not say.
  absl::Duration timeout = absl::InfiniteDuration();
  uint64_t priority = 0;  // 1 is the most urgent; 0: the model's default
};

// Of a request. INVALID_ARGUMENT: a reserved name, a value of the wrong type or
// out of range.
absl::StatusOr<RequestParameters> ParseRequestParameters(
    const ParameterMap& parameters);

// The level of a request that asks for `asked` and whose caller gets none that
// is more urgent than `ceiling`, of a model that has `levels` and a default; 0
// of the first two: nothing is said.
uint64_t PriorityFor(uint64_t asked, uint64_t ceiling, uint64_t levels,
                     uint64_t default_level);

// Where a tensor lies in clients' shared memory.
struct SharedMemoryParameters {
  std::string_view region;
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

struct TensorParameters {
  std::optional<SharedMemoryParameters> shared_memory;
  // Of an output: so many of the largest elements are wanted; 0: all as it is.
  size_t classes = 0;
};

// Of one input or requested output; views of `parameters`. `tensor` is
// "input 'ids'". INVALID_ARGUMENT: a value of the wrong type, a part of the
// shared memory's without the others, or classes in shared memory.
absl::StatusOr<TensorParameters> ParseTensorParameters(
    absl::string_view tensor, const ParameterMap& parameters);

}  // namespace stoker
