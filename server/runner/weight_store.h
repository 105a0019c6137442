// A program's parameters, buffers and constants as torch tensors over the
// mapped .pt2. Every compiled artifact of the version borrows them: one copy in
// memory, and that one in the page cache.
//
// Immutable after Map; thread-safe. The mapping is read-only: writing through
// one of its tensors ends the process, which is why an artifact that writes
// into its constants is refused (see ProgramEffects).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "base/zip_archive.h"
#include "runner/executable_loader.h"
#include "runner/program_effects.h"

namespace stoker {

class WeightStore {
 public:
  static absl::StatusOr<std::shared_ptr<WeightStore>> Map(
      const std::string& pt2_path);

  // Null when the program has no tensor of that name. The pointer lives as long
  // as the store; AOTInductor's containers hold on to the tensor itself for
  // ever (pytorch #194480), so its memory is the store's, not the tensor's.
  at::Tensor* Find(const std::string& name);

  const ProgramEffects& effects() const { return effects_; }
  const std::string& path() const { return path_; }

 private:
  WeightStore(std::string path, std::shared_ptr<const ZipArchive> mapping,
              ProgramEffects effects);

  const std::string path_;
  const std::shared_ptr<const ZipArchive> mapping_;
  const ProgramEffects effects_;
  std::unordered_map<std::string, at::Tensor> tensors_;
};

}  // namespace stoker
