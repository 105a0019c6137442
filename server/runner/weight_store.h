// A program's parameters, buffers and constants as torch tensors over the
// mapped .pt2. Every compiled artifact of the version borrows them: one copy in
// memory, and that one in the page cache.
//
// Thread-safe. The mapping is read-only: writing through
// one of its tensors ends the process, which is why an artifact that writes
// into its constants is refused (see ProgramEffects).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/zip_archive.h"
#include "runner/executable_loader.h"
#include "runner/program_effects.h"

namespace stoker {

class WeightStore {
 public:
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  static absl::StatusOr<std::shared_ptr<WeightStore>> Map(
      const std::string& pt2_path);

  // Null when the program has no tensor of that name. The pointer lives as long
  // as the store; AOTInductor's containers hold on to the tensor itself for
  // ever (pytorch #194480), so its memory is the store's, not the tensor's.
  at::Tensor* Find(const std::string& name);

  // The same weight of a linear layer, float32 [out, in], in oneDNN's own
  // layout and as it is or rounded to bfloat16: a copy, made at the first call
  // and shared by all artifacts that ask for it. FAILED_PRECONDITION when it is
  // no such weight.
  absl::StatusOr<at::Tensor*> Packed(const std::string& name,
                                     at::ScalarType dtype)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the tensors show what the file held when it was mapped.
  bool Unchanged() const { return mapping_->Unchanged(); }

  const ProgramEffects& effects() const { return effects_; }
  const std::string& path() const { return path_; }

 private:
  WeightStore(std::string path, std::shared_ptr<const ZipArchive> mapping,
              ProgramEffects effects);

  const std::string path_;
  const std::shared_ptr<const ZipArchive> mapping_;
  const ProgramEffects effects_;
  std::unordered_map<std::string, at::Tensor> tensors_;

  absl::Mutex mu_;  // held while packing: one copy, the others wait
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> packed_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
