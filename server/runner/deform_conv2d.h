// torchvision.deform_conv2d (runner/vision_operators.h). Private to this room.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace stoker {

struct DeformableConvolution {
  struct Size {
    int64_t height, width;
  };
  Size stride, padding, dilation;
  int64_t groups;
  int64_t offset_groups;
};

// input [N, C, H, W]; weight [O, C / groups, h, w]; offset [N, offset_groups *
// h * w * 2, out_h, out_w], by how much the sample of each element of the
// kernel is moved, y before x; mask [N, offset_groups * h * w, out_h, out_w],
// what it is multiplied by, looked at if `use_mask`; bias [O]. Returns [N, O,
// out_h, out_w]. Samples outside of the input are zero. Throws c10::Error.
at::Tensor DeformConv2d(const at::Tensor& input, const at::Tensor& weight,
                        const at::Tensor& offset, const at::Tensor& mask,
                        const at::Tensor& bias,
                        const DeformableConvolution& how, bool use_mask);

}  // namespace stoker
