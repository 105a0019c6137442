// The tensors that an exported program's .pt2 holds, found and checked without
// torch.
//
// The archive is untrusted: every size, stride and offset of the two payload
// configurations is checked against the member that it points into, pickled
// payloads are refused, and the graph is held to CheckProgram. Nothing is
// copied; the bytes are views of the mapped file.
//
// Immutable after Open; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "program/zip_archive.h"
#include "runner/stored_tensor.h"

namespace stoker {

class ProgramArchive {
 public:
  // INVALID_ARGUMENT, with the path, the tensor and what is wrong.
  static absl::StatusOr<std::shared_ptr<const ProgramArchive>> Open(
      const std::string& pt2_path);

  // "model" unless the author chose another name.
  const std::string& model_name() const { return model_name_; }
  // models/<model_name>.json, accepted by CheckProgram.
  const nlohmann::json& program() const { return *program_; }
  // Parameters, buffers and lifted constants.
  const StoredTensors& tensors() const { return tensors_; }
  // INVALID_ARGUMENT, with the path, when the graph's values are on a GPU: its
  // operators name that device.
  absl::Status CheckRunsOnCpu() const;
  // What the tensors' bytes are views of.
  const std::shared_ptr<const ZipArchive>& zip() const { return zip_; }

 private:
  explicit ProgramArchive(std::shared_ptr<const ZipArchive> zip);
  absl::Status ReadProgram();
  absl::Status ReadPayloads(const std::string& folder);
  absl::StatusOr<StoredTensor> ReadEntry(const std::string& place,
                                         const nlohmann::json& entry) const;

  const std::shared_ptr<const ZipArchive> zip_;
  std::string root_;  // the archive's only top folder, with a slash
  std::string model_name_;
  std::shared_ptr<const nlohmann::json> program_;
  StoredTensors tensors_;
  bool exported_on_gpu_ = false;
};

}  // namespace stoker
