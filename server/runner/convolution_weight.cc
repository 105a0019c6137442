#include "runner/convolution_weight.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runner/hidden_function.h"

// Of the OpenMP that torch brings.
extern "C" int omp_get_max_threads();

namespace stoker {
namespace {

// Of one weight: images of any size may come. Beyond them the layout of the
// first kind serves, at the cost of laying it out anew.
constexpr size_t kMostKinds = 512;

constexpr int64_t kHeight = 2;  // its dimension, where there is no depth

// What has no height, with one of 1; all else as it is.
at::Tensor WithHeight(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(kHeight) : tensor.alias();
}

at::Tensor Pack(const at::Tensor& dense, const at::Tensor& images,
                const ConvolutionWeight::How& how) {
  static const auto reorder =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "")
          .typed<at::Tensor(const at::Tensor&, c10::SymIntArrayRef,
                            c10::SymIntArrayRef, c10::SymIntArrayRef,
                            c10::SymInt, at::OptionalSymIntArrayRef)>();
  const auto sizes = [](at::IntArrayRef numbers) {
    return std::vector<c10::SymInt>(numbers.begin(), numbers.end());
  };
  const std::vector<c10::SymInt> input = sizes(images.sizes());
  return reorder.call(dense, sizes(how.padding), sizes(how.stride),
                      sizes(how.dilation), how.groups, input);
}

at::Tensor Description(const at::Tensor& packed) {
  static const auto describe =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_get_mkldnn_serialized_md", "")
          .typed<at::Tensor(const at::Tensor&)>();
  return describe.call(packed);
}

}  // namespace

ConvolutionWeight::ConvolutionWeight(
    const at::Tensor& dense, std::shared_ptr<std::atomic<int64_t>> bytes)
    : dense_(WithHeight(dense)), bytes_(std::move(bytes)) {}

ConvolutionWeight* ConvolutionWeight::Of(const at::Tensor& tensor) {
  return dynamic_cast<ConvolutionWeight*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
}

ConvolutionWeight::Kind ConvolutionWeight::KindOf(const at::Tensor& images,
                                                  const How& how) {
  Kind kind = {};
  auto at = kind.begin();
  *at++ = omp_get_max_threads();
  *at++ = how.groups;
  for (const at::IntArrayRef numbers :
       {images.sizes(), how.padding, how.stride, how.dilation}) {
    at = std::copy(numbers.begin(), numbers.end(), at);
  }
  return kind;
}

const at::Tensor& ConvolutionWeight::For(const at::Tensor& images,
                                         const How& how) {
  const size_t dimensions = static_cast<size_t>(dense_.dim()) - 2;
  TORCH_CHECK(
      images.dim() == dense_.dim() && how.padding.size() == dimensions &&
          how.stride.size() == dimensions && how.dilation.size() == dimensions,
      "a convolution with packed weights: expected images of [rows, "
      "channels] and ",
      dimensions, " dimensions, got ", images.sizes());
  const Kind kind = KindOf(images, how);
  {
    const absl::ReaderMutexLock lock(&mu_);
    const auto found = by_kind_.find(kind);
    if (found != by_kind_.end()) return *found->second;
    if (by_kind_.size() >= kMostKinds) return layouts_.front().weight;
  }
  return Add(kind, images, how);
}

const at::Tensor& ConvolutionWeight::Add(const Kind& kind,
                                         const at::Tensor& images,
                                         const How& how) {
  const absl::MutexLock lock(&mu_);
  const auto found = by_kind_.find(kind);
  if (found != by_kind_.end()) return *found->second;
  at::Tensor packed = Pack(dense_, images, how);
  at::Tensor description = Description(packed);
  auto same =
      std::find_if(layouts_.begin(), layouts_.end(), [&](const Layout& one) {
        return at::equal(one.description, description);
      });
  if (same == layouts_.end()) {
    same = layouts_.insert(layouts_.end(),
                           {std::move(packed), std::move(description)});
    if (bytes_ != nullptr) *bytes_ += static_cast<int64_t>(dense_.nbytes());
  }
  by_kind_.emplace(kind, &same->weight);
  return same->weight;
}

void ConvolutionWeight::Release() {
  const absl::MutexLock lock(&mu_);
  by_kind_.clear();
  layouts_.clear();
}

size_t ConvolutionWeight::layouts() const {
  const absl::ReaderMutexLock lock(&mu_);
  return layouts_.size();
}

namespace {

using torch::aot_inductor::tensor_handle_to_tensor_pointer;
using torch::aot_inductor::tensor_pointer_to_tensor_handle;

// A call of AOTInductor's interface with the weight in the layout that it
// wants, and with a height where it has none.
class LaidOut {
 public:
  LaidOut(AtenTensorHandle images, AtenTensorHandle weight,
          at::IntArrayRef padding, at::IntArrayRef stride,
          at::IntArrayRef dilation, int64_t groups)
      : images_(images),
        weight_(weight),
        padding_(padding),
        stride_(stride),
        dilation_(dilation) {
    ConvolutionWeight* const laid_out =
        ConvolutionWeight::Of(*tensor_handle_to_tensor_pointer(weight));
    if (laid_out == nullptr) return;
    if (padding.size() == 1) AddHeight();
    const at::Tensor& chosen =
        laid_out->For(*tensor_handle_to_tensor_pointer(images_),
                      {padding_, stride_, dilation_, groups});
    // The interface takes what it only reads without const.
    weight_ = tensor_pointer_to_tensor_handle(const_cast<at::Tensor*>(&chosen));
  }

  AtenTensorHandle images() const { return images_; }
  AtenTensorHandle weight() const { return weight_; }
  at::IntArrayRef padding() const { return padding_; }
  at::IntArrayRef stride() const { return stride_; }
  at::IntArrayRef dilation() const { return dilation_; }

  // What is added to the result.
  AtenTensorHandle Other(AtenTensorHandle other) {
    if (!with_height_) return other;
    other_ = WithHeight(*tensor_handle_to_tensor_pointer(other));
    return tensor_pointer_to_tensor_handle(&other_);
  }

  // The call's result, of the sizes that its caller knows.
  void Finish(AtenTensorHandle result) const {
    if (!with_height_) return;
    at::Tensor& tensor = *tensor_handle_to_tensor_pointer(result);
    tensor = tensor.squeeze(kHeight);
  }

 private:
  void AddHeight() {
    with_height_ = true;
    high_ = WithHeight(*tensor_handle_to_tensor_pointer(images_));
    images_ = tensor_pointer_to_tensor_handle(&high_);
    numbers_ = {0, padding_[0], 1, stride_[0], 1, dilation_[0]};
    const at::IntArrayRef all = numbers_;
    padding_ = all.slice(0, 2);
    stride_ = all.slice(2, 2);
    dilation_ = all.slice(4, 2);
  }

  AtenTensorHandle images_;
  AtenTensorHandle weight_;
  at::IntArrayRef padding_, stride_, dilation_;
  bool with_height_ = false;
  at::Tensor high_, other_;
  std::array<int64_t, 6> numbers_ = {};
};

at::IntArrayRef Numbers(const int64_t* first, int64_t count) {
  return {first, static_cast<size_t>(count)};
}

}  // namespace
}  // namespace stoker

// Compiled code calls the program's functions of these names before libtorch's.

AOTITorchError aoti_torch_cpu_mkldnn__convolution_pointwise(
    AtenTensorHandle X, AtenTensorHandle W, AtenTensorHandle* B,
    const int64_t* padding, int64_t padding_len_, const int64_t* stride,
    int64_t stride_len_, const int64_t* dilation, int64_t dilation_len_,
    int64_t groups, const char* attr, const double** scalars,
    int64_t scalars_len_, const char** algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    static const auto hidden =
        stoker::Hidden(&aoti_torch_cpu_mkldnn__convolution_pointwise,
                       "aoti_torch_cpu_mkldnn__convolution_pointwise");
    stoker::LaidOut call(X, W, stoker::Numbers(padding, padding_len_),
                         stoker::Numbers(stride, stride_len_),
                         stoker::Numbers(dilation, dilation_len_), groups);
    const AOTITorchError error = hidden(
        call.images(), call.weight(), B, call.padding().data(),
        call.padding().size(), call.stride().data(), call.stride().size(),
        call.dilation().data(), call.dilation().size(), groups, attr, scalars,
        scalars_len_, algorithm, ret0);
    if (error == AOTI_TORCH_SUCCESS) call.Finish(*ret0);
    return error;
  });
}

AOTITorchError aoti_torch_cpu_mkldnn__convolution_pointwise_binary(
    AtenTensorHandle X, AtenTensorHandle other, AtenTensorHandle W,
    AtenTensorHandle* B, const int64_t* padding, int64_t padding_len_,
    const int64_t* stride, int64_t stride_len_, const int64_t* dilation,
    int64_t dilation_len_, int64_t groups, const char* binary_attr,
    double* alpha, const char** unary_attr, const double** unary_scalars,
    int64_t unary_scalars_len_, const char** unary_algorithm,
    AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    static const auto hidden =
        stoker::Hidden(&aoti_torch_cpu_mkldnn__convolution_pointwise_binary,
                       "aoti_torch_cpu_mkldnn__convolution_pointwise_binary");
    stoker::LaidOut call(X, W, stoker::Numbers(padding, padding_len_),
                         stoker::Numbers(stride, stride_len_),
                         stoker::Numbers(dilation, dilation_len_), groups);
    const AOTITorchError error = hidden(
        call.images(), call.Other(other), call.weight(), B,
        call.padding().data(), call.padding().size(), call.stride().data(),
        call.stride().size(), call.dilation().data(), call.dilation().size(),
        groups, binary_attr, alpha, unary_attr, unary_scalars,
        unary_scalars_len_, unary_algorithm, ret0);
    if (error == AOTI_TORCH_SUCCESS) call.Finish(*ret0);
    return error;
  });
}
