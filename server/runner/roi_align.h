// torchvision.roi_align and ps_roi_align (runner/vision_operators.h). Private
// to this room.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace stoker {

// input [N, C, H, W]; boxes [K, 5] of row, x1, y1, x2, y2 in units of
// 1/`spatial_scale` elements. Returns [K, C, height, width]. `sampling_ratio`:
// samples along each side of a part, 0 or less: as many as elements. `aligned`:
// coordinates are of elements' centres. Throws c10::Error.
at::Tensor RoiAlign(const at::Tensor& input, const at::Tensor& boxes,
                    double spatial_scale, int64_t height, int64_t width,
                    int64_t sampling_ratio, bool aligned);

// The same, aligned, of a channel for each part: output c of part (h, w) is of
// channel (c * height + h) * width + w. Returns [K, C / (height * width),
// height, width], and the channels of it, INT32.
std::tuple<at::Tensor, at::Tensor> PsRoiAlign(const at::Tensor& input,
                                              const at::Tensor& boxes,
                                              double spatial_scale,
                                              int64_t height, int64_t width,
                                              int64_t sampling_ratio);

}  // namespace stoker
