#include "runner/convolution_weight.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

// Of the OpenMP that torch brings.
extern "C" int omp_get_max_threads();

namespace stoker {
namespace {

// Of one weight: images of any size may come. Beyond them the layout of the
// first kind serves, at the cost of laying it out anew.
constexpr size_t kMostKinds = 512;

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

ConvolutionWeight::ConvolutionWeight(const at::Tensor& dense)
    : dense_(dense.alias()) {}

ConvolutionWeight* ConvolutionWeight::Of(const at::Tensor& tensor) {
  // Nobody else hangs anything on tensors on the host.
  return static_cast<ConvolutionWeight*>(
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
  TORCH_CHECK(images.dim() == 4 && how.padding.size() == 2 &&
                  how.stride.size() == 2 && how.dilation.size() == 2,
              "a convolution with packed weights: expected images of [rows, "
              "channels, height, width], got ",
              images.sizes());
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

// The handle of the weight's layout for this run.
AtenTensorHandle LaidOut(AtenTensorHandle images, AtenTensorHandle weight,
                         const int64_t* padding, const int64_t* stride,
                         const int64_t* dilation, int64_t groups) {
  using torch::aot_inductor::tensor_handle_to_tensor_pointer;
  ConvolutionWeight* const laid_out =
      ConvolutionWeight::Of(*tensor_handle_to_tensor_pointer(weight));
  if (laid_out == nullptr) return weight;
  const at::Tensor& chosen =
      laid_out->For(*tensor_handle_to_tensor_pointer(images),
                    {{padding, 2}, {stride, 2}, {dilation, 2}, groups});
  // The interface takes what it only reads without const.
  return torch::aot_inductor::tensor_pointer_to_tensor_handle(
      const_cast<at::Tensor*>(&chosen));
}

// libtorch's function of that name, which one here hides.
template <typename Function>
Function* Hidden(Function* /*here*/, const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  TORCH_CHECK(found != nullptr, "libtorch lacks ", name);
  return reinterpret_cast<Function*>(found);
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
    W = stoker::LaidOut(X, W, padding, stride, dilation, groups);
    return hidden(X, W, B, padding, padding_len_, stride, stride_len_, dilation,
                  dilation_len_, groups, attr, scalars, scalars_len_, algorithm,
                  ret0);
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
    W = stoker::LaidOut(X, W, padding, stride, dilation, groups);
    return hidden(X, other, W, B, padding, padding_len_, stride, stride_len_,
                  dilation, dilation_len_, groups, binary_attr, alpha,
                  unary_attr, unary_scalars, unary_scalars_len_,
                  unary_algorithm, ret0);
  });
}
