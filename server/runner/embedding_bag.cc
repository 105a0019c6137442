#include "runner/embedding_bag.h"

#include <ATen/ops/_embedding_bag_forward_only_native.h>
#include <ATen/ops/_embedding_bag_native.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "runner/replaced_kernels.h"

namespace stoker {
namespace {

using Outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Kernel = Outputs (*)(const at::Tensor&, const at::Tensor&,
                           const at::Tensor&, bool, int64_t, bool,
                           const std::optional<at::Tensor>&, bool, int64_t);

template <typename Int>
bool InOrder(const at::Tensor& offsets, int64_t indices) {
  const Int* values = offsets.const_data_ptr<Int>();
  int64_t previous = 0;
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    if (values[i] < previous || values[i] > indices) return false;
    if (i == 0 && values[i] != 0) return false;
    previous = values[i];
  }
  return true;
}

// Offsets of other types and ranks are left to the kernel, which refuses them.
void CheckOffsets(const at::Tensor& offsets, int64_t indices) {
  if (offsets.dim() != 1) return;
  const at::Tensor values = offsets.contiguous();
  bool in_order = true;
  if (values.scalar_type() == at::kLong) {
    in_order = InOrder<int64_t>(values, indices);
  } else if (values.scalar_type() == at::kInt) {
    in_order = InOrder<int32_t>(values, indices);
  }
  TORCH_CHECK_VALUE(in_order,
                    "offsets must begin with 0, not decrease and not pass the "
                    "indices");
}

template <Kernel kernel>
Outputs Checked(const at::Tensor& weight, const at::Tensor& indices,
                const at::Tensor& offsets, bool scale_grad_by_freq,
                int64_t mode, bool sparse,
                const std::optional<at::Tensor>& per_sample_weights,
                bool include_last_offset, int64_t padding_idx) {
  CheckOffsets(offsets, indices.numel());
  return kernel(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                per_sample_weights, include_last_offset, padding_idx);
}

bool ReplaceEmbeddingBags() {
  ReplaceCpuKernels([](torch::Library& library) {
    library.impl("_embedding_bag", Checked<at::native::_embedding_bag_cpu>);
    library.impl("_embedding_bag_forward_only",
                 Checked<at::native::_embedding_bag_forward_only_cpu>);
  });
  return true;
}

}  // namespace

void MakeEmbeddingBagsSafe() {
  static const bool replaced = ReplaceEmbeddingBags();
  static_cast<void>(replaced);
}

}  // namespace stoker
