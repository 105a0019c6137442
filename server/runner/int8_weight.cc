#include "runner/int8_weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "runner/hidden_function.h"
#include "runner/int8_rows.h"

namespace stoker {
namespace {

// Numbers that a thread should have to itself: fewer are done sooner than it
// wakes up.
constexpr int64_t kNumbersOfThread = 1 << 15;

int64_t RowsOfThread(int64_t row) {
  return std::max<int64_t>(1, kNumbersOfThread / std::max<int64_t>(1, row));
}

const float* Floats(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}

}  // namespace

std::shared_ptr<const Int8Weight::Quantised> Int8Weight::Quantise(
    const at::Tensor& dense, absl::Span<const float> factors) {
  const int64_t out = dense.size(0);
  const int64_t in = dense.size(1);
  auto made = std::make_shared<Quantised>();
  made->integers = at::empty({out, in}, dense.options().dtype(at::kChar));
  made->scales = at::empty({out}, dense.options());
  made->offsets = at::empty({out}, dense.options());
  made->nothing = at::zeros({out}, dense.options());
  made->factors = at::empty({in}, dense.options());
  auto* const inverse = made->factors.mutable_data_ptr<float>();
  std::vector<float> own(factors.begin(), factors.end());
  own.resize(static_cast<size_t>(in), 1);
  for (size_t i = 0; i < own.size(); ++i) inverse[i] = 1 / own[i];
  auto* const integers = made->integers.mutable_data_ptr<int8_t>();
  auto* const scales = made->scales.mutable_data_ptr<float>();
  auto* const offsets = made->offsets.mutable_data_ptr<float>();
  for (int64_t row = 0; row < out; ++row) {
    const Int8WeightRow found = QuantiseWeightRow(
        Floats(dense) + row * in, own.data(), own.size(), integers + row * in);
    scales[row] = found.scale;
    offsets[row] = found.scale * found.sum;
  }
  return made;
}

Int8Weight::Int8Weight(const at::Tensor& dense)
    : quantised_(Quantise(dense, {})) {}

Int8Weight* Int8Weight::Of(const at::Tensor& tensor) {
  return dynamic_cast<Int8Weight*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
}

at::Tensor Int8Weight::Product(const at::Tensor& x,
                               const std::optional<at::Tensor>& bias) const {
  const std::shared_ptr<const Quantised> weight = quantised_;
  TORCH_CHECK(weight != nullptr, "a linear layer whose weight is gone");
  const int64_t out = weight->integers.size(0);
  const int64_t in = weight->integers.size(1);
  TORCH_CHECK(x.dim() > 0 && x.size(-1) == in && x.scalar_type() == at::kFloat,
              "a linear layer of eight-bit integers: expected rows of ", in,
              " numbers of float32, got ", x.toString(), " ", x.sizes());
  const at::Tensor dense = x.contiguous();
  const int64_t rows = in == 0 ? 0 : dense.numel() / in;
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = out;
  at::Tensor result = at::empty(sizes, x.options());
  const at::Tensor integers =
      at::empty({rows, in}, x.options().dtype(at::kChar));
  std::vector<Int8Row> found(static_cast<size_t>(rows));
  at::parallel_for(0, rows, RowsOfThread(in), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      found[static_cast<size_t>(row)] =
          QuantiseRow(Floats(dense) + row * in, Floats(weight->factors),
                      static_cast<size_t>(in),
                      integers.mutable_data_ptr<int8_t>() + row * in);
    }
  });
  // Of four bytes each, as the result's numbers are, whose place they take.
  at::Tensor sums = result.view({rows, out}).view(at::kInt);
  at::_int_mm_out(sums, integers, weight->integers.t());
  const at::Tensor added = bias ? bias->contiguous() : weight->nothing;
  auto* const products = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, RowsOfThread(out), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      ScaleProducts(found[static_cast<size_t>(row)], Floats(weight->scales),
                    Floats(weight->offsets), Floats(added),
                    static_cast<size_t>(out), products + row * out);
    }
  });
  return result;
}

void Int8Weight::Note(bool noting) {
  const absl::MutexLock lock(&mu_);
  if (noting) largest_.clear();
  noting_ = noting;
}

void Int8Weight::NoteInputs(const at::Tensor& x) {
  if (x.dim() == 0 || x.scalar_type() != at::kFloat) return;
  const at::Tensor dense = x.contiguous();
  const auto columns = static_cast<size_t>(dense.size(-1));
  const absl::MutexLock lock(&mu_);
  largest_.resize(columns);
  const auto count = static_cast<size_t>(dense.numel());
  for (size_t begin = 0; begin < count; begin += columns) {
    NoteLargest(Floats(dense) + begin, columns, largest_.data());
  }
}

std::vector<float> Int8Weight::FactorsOfNoted(const at::Tensor& dense) const {
  // What is never large can't be told from what is small.
  constexpr float kLeastNoted = 1e-5F;
  const auto in = static_cast<size_t>(dense.size(1));
  const absl::MutexLock lock(&mu_);
  if (largest_.size() != in) return {};
  std::vector<float> weights(in);
  for (int64_t row = 0; row < dense.size(0); ++row) {
    NoteLargest(Floats(dense) + row * dense.size(1), in, weights.data());
  }
  std::vector<float> factors(in);
  double logarithms = 0;
  for (size_t i = 0; i < in; ++i) {
    const float ratio = std::sqrt(std::max(largest_[i], kLeastNoted) /
                                  std::max(weights[i], kLeastNoted));
    factors[i] = std::isfinite(ratio) ? ratio : 1;
    logarithms += std::log(factors[i]);
  }
  // Rows keep about their size.
  const auto mean =
      static_cast<float>(std::exp(logarithms / static_cast<double>(in)));
  for (float& factor : factors) factor /= mean;
  return factors;
}

void Int8Weight::Even(const at::Tensor& dense,
                      absl::Span<const float> factors) {
  quantised_ = Quantise(dense, factors);
}

int64_t Int8Weight::bytes() const {
  const std::shared_ptr<const Quantised> weight = quantised_;
  if (weight == nullptr) return 0;
  return static_cast<int64_t>(weight->integers.nbytes() +
                              3 * weight->scales.nbytes() +
                              weight->factors.nbytes());
}

void Int8Weight::Release() { quantised_ = std::shared_ptr<const Quantised>(); }

void ApplyUnary(at::Tensor& result, std::string_view name,
                absl::Span<const double* const> scalars,
                std::string_view algorithm) {
  const auto scalar = [&](size_t index) {
    TORCH_CHECK(index < scalars.size() && scalars[index] != nullptr,
                "a linear layer's ", name, ": a number is missing");
    return *scalars[index];
  };
  if (name == "none" || name.empty()) return;
  if (name == "relu") {
    at::relu_(result);
  } else if (name == "gelu") {
    at::gelu_(result, algorithm == "tanh" ? "tanh" : "none");
  } else if (name == "swish") {
    at::silu_(result);
  } else if (name == "sigmoid") {
    at::sigmoid_(result);
  } else if (name == "tanh") {
    at::tanh_(result);
  } else if (name == "hardswish") {
    at::hardswish_(result);
  } else if (name == "hardsigmoid") {
    at::hardsigmoid_(result);
  } else if (name == "leaky_relu") {
    at::leaky_relu_(result, scalar(0));
  } else if (name == "hardtanh") {
    at::hardtanh_(result, scalar(0), scalar(1));
  } else {
    TORCH_CHECK(false, "a linear layer of eight-bit integers can't compute '",
                name, "'");
  }
}

void ApplyBinary(at::Tensor& result, const at::Tensor& other,
                 std::string_view name) {
  if (name == "add") {
    result.add_(other);
  } else if (name == "sub") {
    result.sub_(other);
  } else if (name == "mul") {
    result.mul_(other);
  } else {
    TORCH_CHECK(false, "a linear layer of eight-bit integers can't compute '",
                name, "' with another tensor");
  }
}

namespace {

using torch::aot_inductor::new_tensor_handle;
using torch::aot_inductor::pointer_to_optional;
using torch::aot_inductor::tensor_handle_to_tensor_pointer;
using torch::aot_inductor::tensor_pointer_to_tensor_handle;

// libtorch's.
auto* LinearPointwise() {
  static const auto hidden = Hidden(&aoti_torch_cpu__linear_pointwise,
                                    "aoti_torch_cpu__linear_pointwise");
  return hidden;
}

// With a weight that was rounded to bfloat16 and packed.
at::Tensor RoundedProduct(const at::Tensor& weight, const at::Tensor& x,
                          const std::optional<at::Tensor>& bias) {
  at::Tensor rounded = x.to(weight.scalar_type());
  const char* none = "";
  AtenTensorHandle made = nullptr;
  // The interface takes what it only reads without const.
  const AOTITorchError error = LinearPointwise()(
      tensor_pointer_to_tensor_handle(&rounded),
      tensor_pointer_to_tensor_handle(const_cast<at::Tensor*>(&weight)),
      nullptr, "none", nullptr, 0, &none, &made);
  TORCH_CHECK(error == AOTI_TORCH_SUCCESS, "a linear layer of bfloat16 failed");
  at::Tensor result = tensor_handle_to_tensor_pointer(made)->to(at::kFloat);
  aoti_torch_delete_tensor_object(made);
  if (bias) result.add_(*bias);
  return result;
}

// The layer's product where it is computed here; nullopt where libtorch's
// function is to compute it, with `weight` as it is afterwards.
std::optional<at::Tensor> OwnProduct(AtenTensorHandle x,
                                     AtenTensorHandle& weight,
                                     AtenTensorHandle* bias) {
  Int8Weight* const integers =
      Int8Weight::Of(*tensor_handle_to_tensor_pointer(weight));
  if (integers == nullptr) return std::nullopt;
  const at::Tensor& input = *tensor_handle_to_tensor_pointer(x);
  const auto added = pointer_to_optional<at::Tensor>(bias);
  const at::Tensor* const instead = integers->instead();
  if (instead == nullptr) return integers->Product(input, added);
  if (instead->scalar_type() == at::kBFloat16) {
    return RoundedProduct(*instead, input, added);
  }
  if (integers->noting()) integers->NoteInputs(input);
  weight = tensor_pointer_to_tensor_handle(const_cast<at::Tensor*>(instead));
  return std::nullopt;
}

}  // namespace
}  // namespace stoker

// Compiled code calls the program's functions of these names before libtorch's.

AOTITorchError aoti_torch_cpu__linear_pointwise(
    AtenTensorHandle X, AtenTensorHandle W, AtenTensorHandle* B,
    const char* attr, const double** scalars, int64_t scalars_len_,
    const char** algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    std::optional<at::Tensor> result = stoker::OwnProduct(X, W, B);
    if (!result.has_value()) {
      return stoker::LinearPointwise()(X, W, B, attr, scalars, scalars_len_,
                                       algorithm, ret0);
    }
    stoker::ApplyUnary(*result, attr,
                       {scalars, static_cast<size_t>(scalars_len_)},
                       algorithm == nullptr ? "" : *algorithm);
    *ret0 = stoker::new_tensor_handle(*std::move(result));
  });
}

AOTITorchError aoti_torch_cpu__linear_pointwise_binary(
    AtenTensorHandle X, AtenTensorHandle other, AtenTensorHandle W,
    AtenTensorHandle* B, const char* attr, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    static const auto hidden =
        stoker::Hidden(&aoti_torch_cpu__linear_pointwise_binary,
                       "aoti_torch_cpu__linear_pointwise_binary");
    std::optional<at::Tensor> result = stoker::OwnProduct(X, W, B);
    if (!result.has_value()) return hidden(X, other, W, B, attr, ret0);
    stoker::ApplyBinary(*result,
                        *stoker::tensor_handle_to_tensor_pointer(other), attr);
    *ret0 = stoker::new_tensor_handle(*std::move(result));
  });
}
