// A program's parameters, buffers and constants as torch tensors: over the
// mapped .pt2, one copy in memory and that one in the page cache, or over one
// copy in a GPU's memory. Every compiled artifact of the version on that device
// borrows them.
//
// Thread-safe. The mapping is read-only: writing through
// one of its tensors ends the process, which is why an artifact that writes
// into its constants is refused (see ProgramEffects).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "program/program_archive.h"
#include "runner/convolution_weight.h"
#include "runner/executable_loader.h"
#include "runner/int8_linears.h"
#include "runner/int8_weight.h"
#include "runner/program_effects.h"

namespace stoker {

class WeightStore : public Int8Linears {
 public:
  ~WeightStore() override;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  static absl::StatusOr<std::shared_ptr<WeightStore>> Map(
      const std::string& pt2_path);

  // So many bytes of a device's memory, accounted before they are taken;
  // RESOURCE_EXHAUSTED with the arithmetic where they don't fit.
  using Allocate =
      std::function<absl::StatusOr<std::shared_ptr<std::byte>>(int64_t bytes)>;

  // The archive's tensors on another device, where somebody has put them:
  // `address` gives the first element of each, and `memory` keeps them there.
  // What is rounded on that device has its memory from `allocate`.
  static absl::StatusOr<std::shared_ptr<WeightStore>> Place(
      const ProgramArchive& archive, c10::Device device,
      absl::FunctionRef<void*(const std::string& name)> address,
      std::shared_ptr<const void> memory, Allocate allocate);

  // Null when the program has no tensor of that name. The pointer lives as long
  // as the store; AOTInductor's containers hold on to the tensor itself for
  // ever (pytorch #194480), so its memory is the store's, not the tensor's.
  at::Tensor* Find(const std::string& name);

  // What Packed gives as float32 from now on has linear layers computed with
  // eight-bit integers (int8_weight.h). Of weights on the host.
  void UseInt8() { int8_ = true; }
  std::vector<Layer> Layers() const override ABSL_LOCKS_EXCLUDED(mu_);
  bool HasBfloat16() const override;
  absl::Status Use(const LayerPrecisions& precisions) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Note(bool noting) override ABSL_LOCKS_EXCLUDED(mu_);
  Int8Factors FactorsOfNoted() const override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Even(const Int8Factors& factors) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same weight of a linear layer, float32 [out, in], in oneDNN's own
  // layout and as it is or rounded to bfloat16; on a GPU any float32 weight,
  // rounded to `dtype` and laid out as it is. A copy, made at the first call
  // and shared by all artifacts that ask for it. FAILED_PRECONDITION when it is
  // no such weight; RESOURCE_EXHAUSTED when a GPU has no room for it.
  absl::StatusOr<at::Tensor*> Packed(const std::string& name,
                                     at::ScalarType dtype)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The weight of convolutions of one to three dimensions, float32, on the
  // host: the tensor as it lies, from which each run of a convolution takes it
  // in the layout that it wants (convolution_weight.h). FAILED_PRECONDITION
  // when it is no such weight.
  absl::StatusOr<at::Tensor*> OfConvolutions(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of the host's memory: what Packed and the layouts of OfConvolutions take by
  // now. Never waits.
  int64_t packed_bytes() const { return *packed_bytes_; }

  // Whether the tensors show what the file held when it was opened.
  bool Unchanged() const { return mapped_ == nullptr || mapped_->Unchanged(); }

  const ProgramEffects& effects() const { return effects_; }
  const std::string& path() const { return path_; }

 private:
  WeightStore(std::string path, std::shared_ptr<const void> memory,
              Allocate allocate, ProgramEffects effects);
  // The weight as eight-bit integers, hanging on a view of it.
  at::Tensor Quantised(const std::string& name, const at::Tensor& dense)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Packed for that, once; null for integers.
  const at::Tensor* Instead(const std::string& name, LayerPrecision precision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<at::Tensor> Rounded(const at::Tensor& dense,
                                     at::ScalarType dtype)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const std::shared_ptr<const void> memory_;  // that the tensors show
  std::shared_ptr<const ZipArchive> mapped_;  // null: a copy of it is
  const Allocate allocate_;                   // empty: on the host
  const ProgramEffects effects_;
  std::unordered_map<std::string, at::Tensor> tensors_;
  // Of the layouts, too, which may outlive this object.
  const std::shared_ptr<std::atomic<int64_t>> packed_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);

  std::atomic<bool> int8_ = false;

  mutable absl::Mutex mu_;  // held while packing: one copy, the others wait
  std::vector<std::shared_ptr<std::byte>> rounded_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> packed_
      ABSL_GUARDED_BY(mu_);
  std::vector<c10::intrusive_ptr<ConvolutionWeight>> convolutions_
      ABSL_GUARDED_BY(mu_);
  std::map<std::string, c10::intrusive_ptr<Int8Weight>> quantised_
      ABSL_GUARDED_BY(mu_);
  LayerPrecisions precisions_ ABSL_GUARDED_BY(mu_);
  Int8Factors factors_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
