// The tensors that an exported program's .pt2 holds, found and checked without
// torch.
//
// The archive is untrusted: every size, stride and offset of the two payload
// configurations is checked against the member that it points into, and pickled
// payloads are refused. Nothing is copied; the bytes are views of the mapped
// file.
//
// Immutable after Open; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/zip_archive.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

// The element types of torch's export schema (its ScalarType).
enum class StoredType : int {
  kByte = 1,
  kChar = 2,
  kShort = 3,
  kInt = 4,
  kLong = 5,
  kHalf = 6,
  kFloat = 7,
  kDouble = 8,
  kComplexHalf = 9,
  kComplexFloat = 10,
  kComplexDouble = 11,
  kBool = 12,
  kBFloat16 = 13,
  kUInt16 = 28,
  kFloat8E4M3FN = 29,
  kFloat8E5M2 = 30,
};

struct StoredTensor {
  StoredType type = StoredType::kFloat;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;     // in elements, not negative
  const std::byte* data = nullptr;  // the first element, naturally aligned
  bool is_parameter = false;
};

class ProgramArchive {
 public:
  // INVALID_ARGUMENT, with the path, the tensor and what is wrong.
  static absl::StatusOr<std::shared_ptr<const ProgramArchive>> Open(
      const std::string& pt2_path);

  // "model" unless the author chose another name.
  const std::string& model_name() const { return model_name_; }
  // models/<model_name>.json: the graph.
  std::string_view program_json() const { return program_json_; }
  // Parameters, buffers and lifted constants by their qualified name. Tied
  // weights appear under each of their names with the same `data`.
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const {
    return tensors_;
  }

 private:
  explicit ProgramArchive(std::shared_ptr<const ZipArchive> zip);
  absl::Status FindProgram();
  absl::Status ReadPayloads(const std::string& folder);
  absl::StatusOr<StoredTensor> ReadEntry(const std::string& place,
                                         const nlohmann::json& entry) const;

  const std::shared_ptr<const ZipArchive> zip_;
  std::string root_;  // the archive's only top folder, with a slash
  std::string model_name_;
  std::string_view program_json_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace stoker
