#include "runner/weight_store.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/execution_context.h"
#include "runner/torch_errors.h"
#include "runner/torch_values.h"

namespace stoker {
namespace {

// The layout is the best one for any number of rows from 8 on.
at::Tensor Pack(const at::Tensor& weight) {
  static constexpr int64_t kRows = 64;
  static const auto reorder =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
          .typed<at::Tensor(const at::Tensor&, std::optional<int64_t>)>();
  return reorder.call(weight, kRows);
}

at::Tensor Pack(const at::Tensor& weight, const ArtifactConvolution& of) {
  static const auto reorder =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "")
          .typed<at::Tensor(const at::Tensor&, c10::SymIntArrayRef,
                            c10::SymIntArrayRef, c10::SymIntArrayRef,
                            c10::SymInt, at::OptionalSymIntArrayRef)>();
  const auto sizes = [](const std::vector<int64_t>& numbers) {
    return std::vector<c10::SymInt>(numbers.begin(), numbers.end());
  };
  const std::vector<c10::SymInt> input = sizes(of.input);
  return reorder.call(weight, sizes(of.padding), sizes(of.stride),
                      sizes(of.dilation), of.groups, input);
}

// Equal for those that are packed in the same way.
std::string KindOf(const ArtifactConvolution& convolution) {
  return absl::StrJoin(
      {convolution.weight, absl::StrJoin(convolution.stride, ","),
       absl::StrJoin(convolution.padding, ","),
       absl::StrJoin(convolution.dilation, ","),
       absl::StrCat(convolution.groups), absl::StrJoin(convolution.input, ",")},
      "\n");
}

}  // namespace

WeightStore::WeightStore(std::string path, std::shared_ptr<const void> memory,
                         Allocate allocate, ProgramEffects effects)
    : path_(std::move(path)),
      memory_(std::move(memory)),
      allocate_(std::move(allocate)),
      effects_(std::move(effects)) {}

absl::StatusOr<std::shared_ptr<WeightStore>> WeightStore::Map(
    const std::string& pt2_path, int threads) {
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  RETURN_IF_ERROR(archive->CheckRunsOnCpu());
  ASSIGN_OR_RETURN(
      std::shared_ptr<WeightStore> store,
      Place(
          *archive, at::kCPU,
          [&](const std::string& name) {
            return const_cast<std::byte*>(archive->tensors().at(name).data);
          },
          archive->zip(), nullptr));
  store->mapped_ = archive->zip();
  store->threads_ = threads;
  return store;
}

absl::StatusOr<std::shared_ptr<WeightStore>> WeightStore::Place(
    const ProgramArchive& archive, c10::Device device,
    absl::FunctionRef<void*(const std::string& name)> address,
    std::shared_ptr<const void> memory, Allocate allocate) {
  const std::string& path = archive.zip()->path();
  std::shared_ptr<WeightStore> store(
      new WeightStore(path, std::move(memory), std::move(allocate),
                      ScanProgramEffects(archive.program())));
  try {
    const c10::InferenceMode mode;
    for (const auto& [name, stored] : archive.tensors()) {
      store->tensors_.emplace(name,
                              ViewOfStored(stored, address(name), device));
    }
  } catch (...) {
    return EagerError(path);
  }
  return store;
}

at::Tensor* WeightStore::Find(const std::string& name) {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

// The containers' references keep the packed tensors alive for ever, but not
// what is in them.
WeightStore::~WeightStore() {
  const absl::MutexLock lock(&mu_);
  for (auto& [key, tensor] : packed_) {
    tensor.unsafeGetTensorImpl()->release_resources();
  }
  for (auto& [key, tensor] : convolutions_) {
    tensor.unsafeGetTensorImpl()->release_resources();
  }
}

absl::StatusOr<at::Tensor*> WeightStore::Packed(const std::string& name,
                                                at::ScalarType dtype) {
  const at::Tensor* dense = Find(name);
  const bool on_host = allocate_ == nullptr;
  if (dense == nullptr || dense->scalar_type() != at::kFloat ||
      (on_host &&
       (dense->dim() != 2 || !dense->is_contiguous() || dense->numel() == 0))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "constant '", name, "' can't be packed: expected a float32 matrix"));
  }
  const absl::MutexLock lock(&mu_);
  const auto found = packed_.find({name, dtype});
  if (found != packed_.end()) return &found->second;
  try {
    at::Tensor packed;
    if (on_host) {
      packed = Pack(dense->to(dtype));
    } else {
      ASSIGN_OR_RETURN(packed, Rounded(*dense, dtype));
    }
    return &packed_.emplace(std::pair(name, dtype), packed).first->second;
  } catch (...) {
    return CompiledError(absl::StrCat("packing constant '", name, "'"));
  }
}

absl::StatusOr<at::Tensor*> WeightStore::Packed(
    const ArtifactConvolution& convolution) {
  const at::Tensor* dense = Find(convolution.weight);
  const int64_t channels = convolution.input[1];
  if (allocate_ != nullptr || dense == nullptr ||
      dense->scalar_type() != at::kFloat || dense->dim() != 4 ||
      !dense->is_contiguous() || dense->numel() == 0 ||
      dense->size(0) % convolution.groups != 0 ||
      dense->size(1) * convolution.groups != channels) {
    return absl::FailedPreconditionError(
        absl::StrCat("constant '", convolution.weight,
                     "' can't be packed: expected float32 "
                     "weights on the host for ",
                     channels, " channels in ", convolution.groups, " groups"));
  }
  const absl::MutexLock lock(&mu_);
  const std::string kind = KindOf(convolution);
  const auto found = convolutions_.find(kind);
  if (found != convolutions_.end()) return &found->second;
  const WithOpenMpThreads as_runs_have(threads_);
  try {
    return &convolutions_.emplace(kind, Pack(*dense, convolution))
                .first->second;
  } catch (...) {
    return CompiledError(
        absl::StrCat("packing constant '", convolution.weight, "'"));
  }
}

absl::StatusOr<at::Tensor> WeightStore::Rounded(const at::Tensor& dense,
                                                at::ScalarType dtype) {
  // As `to` lays it out, which is what the compiled code expects.
  const at::Tensor like =
      at::empty_like(dense, dense.options().dtype(dtype).device(at::kMeta),
                     at::MemoryFormat::Preserve);
  ASSIGN_OR_RETURN(std::shared_ptr<std::byte> room,
                   allocate_(static_cast<int64_t>(like.nbytes())));
  at::Tensor rounded = at::for_blob(room.get(), like.sizes())
                           .strides(like.strides())
                           .options(dense.options().dtype(dtype))
                           .target_device(dense.device())
                           .make_tensor();
  rounded.copy_(dense);
  rounded_.push_back(std::move(room));
  return rounded;
}

}  // namespace stoker
