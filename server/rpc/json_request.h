// The JSON of an inference request over HTTP, read once from front to back
// without a tree of it in memory. Numbers are read from their own text, so that
// integers of 64 bits and floats of 32 are exact; NaN, Infinity and -Infinity
// are numbers, as Triton has it.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/request_parameters.h"
#include "tensor/tensor.h"

namespace stoker {

struct JsonRequest {
  // Of an input or a requested output. What the protocol of HTTP has for itself
  // is no parameter any more.
  struct Entry {
    std::string name;
    std::string datatype;
    Shape shape;
    ParameterMap parameters;
    bool shared_memory = false;           // its elements lie there
    std::optional<uint64_t> binary_size;  // or behind the JSON
    std::optional<bool> binary;           // of an output: or go there
    std::optional<Buffer> data;           // or stood in the JSON,
    size_t data_size = 0;                 // in so many bytes
  };

  std::string id;
  ParameterMap parameters;
  bool binary_outputs = false;  // of those that don't say
  std::vector<Entry> inputs;
  std::vector<Entry> outputs;
};

// Inputs, outputs and parameters that are read.
constexpr size_t kMaxJsonEntries = 4096;

// Bytes behind the text that must be there to be read, whatever they are.
extern const size_t kJsonPadding;

// Memory that reading `size` bytes takes, at most.
size_t JsonReadLimit(size_t size);
// And what is left of it in `request`.
size_t MemoryOf(const JsonRequest& request);

// INVALID_ARGUMENT: what is wrong; RESOURCE_EXHAUSTED: too many entries.
absl::Status ReadJsonRequest(std::string_view text, JsonRequest& request);

}  // namespace stoker
