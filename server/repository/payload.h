// A program's weights and constants, as the archive's two config files describe
// them: checked against the members they name, never read.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "program/json_cursor.h"
#include "program/zip_archive.h"

namespace stoker {

struct PayloadTensor {
  std::string name;    // "encoder.layer.0.weight"
  std::string member;  // of the archive; tied tensors share one
  int64_t dtype = 0;   // torch's serialised ScalarType
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // in elements
  std::string device;
};

struct Payload {
  std::vector<PayloadTensor> tensors;  // sorted by name
  int64_t bytes = 0;                   // of all members, each once
  std::string digest;  // of the members' names, sizes and CRC-32s
};

// `top` is the archive's top folder. INVALID_ARGUMENT for a pickled entry, a
// custom object, a member that is missing, and a tensor that reaches beyond its
// member.
absl::StatusOr<Payload> ReadPayload(const ZipArchive& archive,
                                    const std::string& top);

}  // namespace stoker
