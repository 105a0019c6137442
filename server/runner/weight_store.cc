#include "runner/weight_store.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "program/program_archive.h"
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

}  // namespace

WeightStore::WeightStore(std::string path, std::shared_ptr<const void> memory,
                         Allocate allocate, ProgramEffects effects)
    : path_(std::move(path)),
      memory_(std::move(memory)),
      allocate_(std::move(allocate)),
      effects_(std::move(effects)) {}

absl::StatusOr<std::shared_ptr<WeightStore>> WeightStore::Map(
    const std::string& pt2_path) {
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
  for (const auto& weight : convolutions_) weight->Release();
  for (const auto& [name, weight] : quantised_) weight->Release();
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
  if (on_host && int8_ && dtype == at::kFloat) dtype = at::kChar;
  const absl::MutexLock lock(&mu_);
  const auto found = packed_.find({name, dtype});
  if (found != packed_.end()) return &found->second;
  try {
    at::Tensor packed;
    if (on_host && dtype == at::kChar) {
      packed = Quantised(name, *dense);
    } else if (on_host) {
      packed = Pack(dense->to(dtype));
      *packed_bytes_ +=
          dense->numel() * static_cast<int64_t>(c10::elementSize(dtype));
    } else {
      ASSIGN_OR_RETURN(packed, Rounded(*dense, dtype));
    }
    return &packed_.emplace(std::pair(name, dtype), packed).first->second;
  } catch (...) {
    return CompiledError(absl::StrCat("packing constant '", name, "'"));
  }
}

absl::StatusOr<at::Tensor*> WeightStore::OfConvolutions(
    const std::string& name) {
  at::Tensor* const dense = Find(name);
  if (allocate_ != nullptr || dense == nullptr ||
      dense->scalar_type() != at::kFloat || dense->dim() < 3 ||
      dense->dim() > 5 || !dense->is_contiguous() || dense->numel() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "constant '", name,
        "' can't be packed: expected a convolution's float32 weights on the "
        "host"));
  }
  const absl::MutexLock lock(&mu_);
  if (ConvolutionWeight::Of(*dense) == nullptr) {
    convolutions_.push_back(
        c10::make_intrusive<ConvolutionWeight>(*dense, packed_bytes_));
    dense->unsafeGetTensorImpl()->set_backend_meta(convolutions_.back());
  }
  return dense;
}

at::Tensor WeightStore::Quantised(const std::string& name,
                                  const at::Tensor& dense) {
  const c10::InferenceMode mode;
  const auto weight = c10::make_intrusive<Int8Weight>(dense);
  const auto factors = factors_.find(name);
  if (factors != factors_.end()) weight->Even(dense, factors->second);
  const auto precision = precisions_.find(name);
  if (precision != precisions_.end()) {
    weight->UseInstead(Instead(name, precision->second));
  }
  at::Tensor view = dense.alias();
  view.unsafeGetTensorImpl()->set_backend_meta(weight);
  *packed_bytes_ += weight->bytes();
  quantised_.emplace(name, weight);
  return view;
}

const at::Tensor* WeightStore::Instead(const std::string& name,
                                       LayerPrecision precision) {
  if (precision == LayerPrecision::kInt8) return nullptr;
  const at::ScalarType dtype =
      precision == LayerPrecision::kFloat32 ? at::kFloat : at::kBFloat16;
  const std::pair key(name, dtype);
  const auto found = packed_.find(key);
  if (found != packed_.end()) return &found->second;
  const at::Tensor& dense = tensors_.at(name);
  at::Tensor packed = Pack(dense.to(dtype));
  *packed_bytes_ +=
      dense.numel() * static_cast<int64_t>(c10::elementSize(dtype));
  return &packed_.emplace(key, std::move(packed)).first->second;
}

std::vector<Int8Linears::Layer> WeightStore::Layers() const {
  const absl::MutexLock lock(&mu_);
  std::vector<Layer> layers;
  layers.reserve(quantised_.size());
  for (const auto& [name, weight] : quantised_) {
    layers.push_back({name, tensors_.at(name).numel()});
  }
  return layers;
}

bool WeightStore::HasBfloat16() const {
  static const bool has =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "")
          .typed<bool()>()
          .call();
  return has;
}

absl::Status WeightStore::Use(const LayerPrecisions& precisions) {
  const absl::MutexLock lock(&mu_);
  precisions_ = precisions;
  try {
    for (const auto& [name, weight] : quantised_) {
      const auto its = precisions_.find(name);
      weight->UseInstead(its == precisions_.end() ? nullptr
                                                  : Instead(name, its->second));
    }
  } catch (...) {
    return CompiledError("packing weights");
  }
  return absl::OkStatus();
}

void WeightStore::Note(bool noting) {
  const absl::MutexLock lock(&mu_);
  for (const auto& [name, weight] : quantised_) weight->Note(noting);
}

Int8Factors WeightStore::FactorsOfNoted() const {
  const absl::MutexLock lock(&mu_);
  Int8Factors factors;
  for (const auto& [name, weight] : quantised_) {
    std::vector<float> found = weight->FactorsOfNoted(tensors_.at(name));
    if (!found.empty()) factors.emplace(name, std::move(found));
  }
  return factors;
}

absl::Status WeightStore::Even(const Int8Factors& factors) {
  for (const auto& [name, ofs] : factors) {
    const auto found = tensors_.find(name);
    const bool fits = found != tensors_.end() && found->second.dim() == 2 &&
                      found->second.size(1) == static_cast<int64_t>(ofs.size());
    if (!fits || !absl::c_all_of(ofs, [](float factor) {
          return factor > 0 && std::isfinite(factor);
        })) {
      return absl::InvalidArgumentError(
          absl::StrCat("factors for inputs of '", name,
                       "': expected a positive number for each column"));
    }
  }
  const absl::MutexLock lock(&mu_);
  factors_ = factors;
  try {
    for (const auto& [name, weight] : quantised_) {
      const auto its = factors_.find(name);
      if (its != factors_.end()) weight->Even(tensors_.at(name), its->second);
    }
  } catch (...) {
    return CompiledError("quantising weights");
  }
  return absl::OkStatus();
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
