// An exported program as torch.export.save wrote it (.pt2), read and checked by
// nobody else in this server, and without torch.
//
// The archive is untrusted. What is opened has one program of a schema that is
// known, calls operators that compute on tensors and that nativert runs and no
// others, holds neither pickles nor compiled code nor custom objects, and its
// weights lie within the file, laid out as the graph expects them. What a
// caller may send it and gets back is ReadSignature's to say.
//
// The file is mapped once; weights are views of it, nothing of them is read or
// copied. Immutable after Open; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "program/stored_tensor.h"
#include "program/zip_archive.h"

namespace stoker {

class ProgramArchive {
 public:
  // torch.export.save's name for the one program of an archive.
  static constexpr char kModelName[] = "model";

  // NOT_FOUND when there is no such file. INVALID_ARGUMENT, with path, place
  // and what is wrong, for what is described above. RESOURCE_EXHAUSTED when the
  // graph doesn't fit into memory.
  static absl::StatusOr<std::shared_ptr<const ProgramArchive>> Open(
      const std::string& pt2_path);

  const std::string& path() const { return zip_->path(); }
  // The archive's only top folder, with a slash.
  const std::string& folder() const { return folder_; }
  // models/model.json, with the graphs of wrappers inlined, values in plain
  // containers and numbers where operators take them (inlined_wrappers.h,
  // plain_containers.h and number_arguments.h).
  const nlohmann::json& program() const { return *program_; }
  // Whether that is not what the file says: nativert can't run it as it is.
  bool is_rewritten() const { return is_rewritten_; }
  // Name and digest of each operator library (program/operator_libraries.h)
  // that it needs.
  const std::map<std::string, std::string>& operator_libraries() const {
    return operator_libraries_;
  }
  // Operators that it calls of which it isn't known that no values lead them
  // astray (compiler/guards/known_operators.txt), each with " at net.py:12"
  // where that is known. Whoever opens the program decides what becomes of it.
  const std::map<std::string, std::string>& unlisted_operators() const {
    return unlisted_operators_;
  }
  // What errors about the program begin with: the path and models/model.json.
  std::string program_place() const;
  // Parameters, buffers and lifted constants.
  const StoredTensors& tensors() const { return tensors_; }
  // Of the members that hold them, each counted once.
  int64_t weights_bytes() const { return weights_bytes_; }
  // INVALID_ARGUMENT, with the path, when the graph's values are on a GPU: its
  // operators name that device.
  absl::Status CheckRunsOnCpu() const;
  // What the tensors' bytes are views of.
  const std::shared_ptr<const ZipArchive>& zip() const { return zip_; }

 private:
  explicit ProgramArchive(std::shared_ptr<const ZipArchive> zip);
  static absl::StatusOr<std::shared_ptr<const ProgramArchive>> OpenExported(
      const std::string& pt2_path);
  absl::Status Read();

  const std::shared_ptr<const ZipArchive> zip_;
  std::string folder_;
  std::shared_ptr<const nlohmann::json> program_;
  bool is_rewritten_ = false;
  std::map<std::string, std::string> operator_libraries_;
  std::map<std::string, std::string> unlisted_operators_;
  StoredTensors tensors_;
  int64_t weights_bytes_ = 0;
  bool exported_on_gpu_ = false;
};

}  // namespace stoker
