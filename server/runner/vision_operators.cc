#include "runner/vision_operators.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "runner/deform_conv2d.h"
#include "runner/roi_align.h"

namespace stoker {
namespace {

// `boxes` [K, 4] of x1, y1, x2, y2, the best first. Returns which are kept.
template <typename T>
std::vector<int64_t> Kept(const at::Tensor& boxes, double threshold) {
  const int64_t count = boxes.size(0);
  const auto box = boxes.accessor<const T, 2>();
  const auto area = [&box](int64_t i) {
    return (box[i][2] - box[i][0]) * (box[i][3] - box[i][1]);
  };
  std::vector<bool> suppressed(static_cast<size_t>(count), false);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < count; ++i) {
    if (suppressed[static_cast<size_t>(i)]) continue;
    kept.push_back(i);
    const T area_i = area(i);
    for (int64_t j = i + 1; j < count; ++j) {
      const T width = std::max(T{0}, std::min(box[i][2], box[j][2]) -
                                         std::max(box[i][0], box[j][0]));
      const T height = std::max(T{0}, std::min(box[i][3], box[j][3]) -
                                          std::max(box[i][1], box[j][1]));
      const T common = width * height;
      if (static_cast<double>(common / (area_i + area(j) - common)) >
          threshold) {
        suppressed[static_cast<size_t>(j)] = true;
      }
    }
  }
  return kept;
}

// The indices of the boxes that are kept, the best first.
at::Tensor Nms(const at::Tensor& boxes, const at::Tensor& scores,
               double threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4,
              "nms: expected boxes [K, 4], got ", boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0),
              "nms: expected scores [", boxes.size(0), "], got ",
              scores.sizes());
  TORCH_CHECK(boxes.scalar_type() == scores.scalar_type(),
              "nms: expected boxes and scores of one type, got ",
              boxes.scalar_type(), " and ", scores.scalar_type());
  const at::Tensor order =
      std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  const at::Tensor sorted = boxes.index_select(0, order);
  std::vector<int64_t> kept;
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "nms",
                             [&] { kept = Kept<scalar_t>(sorted, threshold); });
  return order.index_select(0, at::tensor(kept, at::kLong));
}

at::Tensor DeformConv2dOfSchema(
    const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
    const at::Tensor& mask, const at::Tensor& bias, int64_t stride_h,
    int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  return DeformConv2d(input, weight, offset, mask, bias,
                      {.stride = {stride_h, stride_w},
                       .padding = {pad_h, pad_w},
                       .dilation = {dilation_h, dilation_w},
                       .groups = groups,
                       .offset_groups = offset_groups},
                      use_mask);
}

// Registered for as long as the libraries live.
bool Register() {
  static torch::Library* const schemas =
      new torch::Library(torch::Library::FRAGMENT, "torchvision", std::nullopt,
                         __FILE__, __LINE__);
  schemas->def(
      "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor");
  schemas->def(
      "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt "
      "pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) "
      "-> Tensor");
  schemas->def(
      "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt "
      "pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, "
      "Tensor)");
  schemas->def(
      "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, "
      "Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt "
      "pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
      "offset_groups, bool use_mask) -> Tensor");
  // Exported with the others: torchvision asks whether it was built for GPUs.
  schemas->def("_cuda_version() -> int", []() -> int64_t { return -1; });
  static torch::Library* const kernels =
      new torch::Library(torch::Library::IMPL, "torchvision",
                         c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels->impl("nms", Nms);
  kernels->impl("roi_align", RoiAlign);
  kernels->impl("ps_roi_align", PsRoiAlign);
  kernels->impl("deform_conv2d", DeformConv2dOfSchema);
  return true;
}

}  // namespace

void RegisterVisionOperators() {
  static const bool registered = Register();
  static_cast<void>(registered);
}

}  // namespace stoker
