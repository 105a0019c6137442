#include "runner/deform_conv2d.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>

namespace stoker {
namespace {

using Size = DeformableConvolution::Size;

Size OutputSize(const at::Tensor& input, const at::Tensor& weight,
                const DeformableConvolution& how) {
  const auto along = [](int64_t size, int64_t kernel, int64_t stride,
                        int64_t padding, int64_t dilation) {
    const int64_t room = size + 2 * padding - (dilation * (kernel - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
  };
  return {along(input.size(2), weight.size(2), how.stride.height,
                how.padding.height, how.dilation.height),
          along(input.size(3), weight.size(3), how.stride.width,
                how.padding.width, how.dilation.width)};
}

void CheckHow(const DeformableConvolution& how) {
  TORCH_CHECK(how.stride.height > 0 && how.stride.width > 0 &&
                  how.dilation.height > 0 && how.dilation.width > 0 &&
                  how.padding.height >= 0 && how.padding.width >= 0,
              "deform_conv2d: expected a stride and a dilation of at least 1 "
              "and a padding of at least 0");
  TORCH_CHECK(how.groups > 0 && how.offset_groups > 0,
              "deform_conv2d: expected groups and offset groups of at least 1, "
              "got ",
              how.groups, " and ", how.offset_groups);
}

void CheckShapes(const at::Tensor& input, const at::Tensor& weight,
                 const at::Tensor& bias, const DeformableConvolution& how) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4,
              "deform_conv2d: expected input and weight of 4 dimensions, got ",
              input.sizes(), " and ", weight.sizes());
  TORCH_CHECK(weight.size(2) > 0 && weight.size(3) > 0,
              "deform_conv2d: expected a kernel of at least 1 x 1, got ",
              weight.sizes());
  TORCH_CHECK(weight.size(1) * how.groups == input.size(1) &&
                  weight.size(0) % how.groups == 0 &&
                  input.size(1) % how.offset_groups == 0,
              "deform_conv2d: ", input.size(1), " channels, weight ",
              weight.sizes(), ", ", how.groups, " groups and ",
              how.offset_groups, " offset groups do not fit together");
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0),
              "deform_conv2d: expected a bias of [", weight.size(0), "], got ",
              bias.sizes());
}

// Of `values`, `each` numbers for every element of every kernel.
void CheckOfKernel(const char* name, const at::Tensor& values, int64_t each,
                   const at::Tensor& input, const at::Tensor& weight,
                   const DeformableConvolution& how, const Size& out) {
  const int64_t channels =
      how.offset_groups * weight.size(2) * weight.size(3) * each;
  const int64_t expected[] = {input.size(0), channels, out.height, out.width};
  TORCH_CHECK(values.sizes() == at::IntArrayRef(expected),
              "deform_conv2d: expected ", name, " of ",
              at::IntArrayRef(expected), ", got ", values.sizes());
}

// Bilinear between the four elements around the point, those outside zero.
template <typename T>
T Sample(const T* channel, int64_t height, int64_t width, T y, T x) {
  // More than one element outside, or not a number.
  if (!(y > T{-1} && y < static_cast<T>(height) && x > T{-1} &&
        x < static_cast<T>(width))) {
    return T{0};
  }
  const T top = std::floor(y), left = std::floor(x);
  const auto row = static_cast<int64_t>(top);
  const auto column = static_cast<int64_t>(left);
  const T below = y - top, right = x - left;
  const auto at = [&](int64_t r, int64_t c) {
    return r >= 0 && r < height && c >= 0 && c < width ? channel[r * width + c]
                                                       : T{0};
  };
  return (T{1} - below) *
             ((T{1} - right) * at(row, column) + right * at(row, column + 1)) +
         below * ((T{1} - right) * at(row + 1, column) +
                  right * at(row + 1, column + 1));
}

// What one image's kernels are multiplied with: [C * h * w, out_h * out_w].
// `offset` and `mask` (null: ones) are those of the image.
template <typename T>
void FillColumns(const at::Tensor& image, const T* offset, const T* mask,
                 const Size& kernel, const DeformableConvolution& how,
                 const Size& out, at::Tensor& columns) {
  const int64_t height = image.size(1), width = image.size(2);
  const int64_t elements = kernel.height * kernel.width;
  const int64_t area = out.height * out.width;
  const int64_t channels_of_group = image.size(0) / how.offset_groups;
  const T* values = image.const_data_ptr<T>();
  T* all = columns.mutable_data_ptr<T>();
  at::parallel_for(0, columns.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t channel = n / elements, element = n % elements;
      const int64_t of_group = channel / channels_of_group * elements + element;
      const T* down = offset + of_group * 2 * area;
      const T* across = down + area;
      const T* factor = mask == nullptr ? nullptr : mask + of_group * area;
      T* column = all + n * area;
      for (int64_t p = 0; p < area; ++p) {
        const int64_t y = p / out.width * how.stride.height -
                          how.padding.height +
                          element / kernel.width * how.dilation.height;
        const int64_t x = p % out.width * how.stride.width - how.padding.width +
                          element % kernel.width * how.dilation.width;
        column[p] =
            (factor == nullptr ? T{1} : factor[p]) *
            Sample(values + channel * height * width, height, width,
                   static_cast<T>(y) + down[p], static_cast<T>(x) + across[p]);
      }
    }
  });
}

}  // namespace

at::Tensor DeformConv2d(const at::Tensor& input, const at::Tensor& weight,
                        const at::Tensor& offset, const at::Tensor& mask,
                        const at::Tensor& bias,
                        const DeformableConvolution& how, bool use_mask) {
  CheckHow(how);
  CheckShapes(input, weight, bias, how);
  const Size kernel{weight.size(2), weight.size(3)};
  const Size out = OutputSize(input, weight, how);
  TORCH_CHECK(out.height > 0 && out.width > 0, "deform_conv2d: the kernel ",
              weight.sizes(), " is larger than the input ", input.sizes());
  CheckOfKernel("an offset", offset, 2, input, weight, how, out);
  if (use_mask) CheckOfKernel("a mask", mask, 1, input, weight, how, out);
  for (const at::Tensor* other : {&weight, &offset, &mask, &bias}) {
    TORCH_CHECK(other->scalar_type() == input.scalar_type() ||
                    (other == &mask && !use_mask),
                "deform_conv2d: expected tensors of one type, got ",
                input.scalar_type(), " and ", other->scalar_type());
  }
  const int64_t area = out.height * out.width;
  const at::Tensor images = input.contiguous();
  const at::Tensor offsets = offset.contiguous();
  const at::Tensor masks = use_mask ? mask.contiguous() : at::Tensor();
  const at::Tensor kernels =
      weight.reshape({how.groups, weight.size(0) / how.groups, -1});
  at::Tensor columns = at::empty(
      {input.size(1) * kernel.height * kernel.width, area}, input.options());
  at::Tensor output = at::empty(
      {input.size(0), weight.size(0), out.height, out.width}, input.options());
  for (int64_t n = 0; n < input.size(0); ++n) {
    AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "deform_conv2d", [&] {
      FillColumns<scalar_t>(
          images[n], offsets[n].const_data_ptr<scalar_t>(),
          use_mask ? masks[n].const_data_ptr<scalar_t>() : nullptr, kernel, how,
          out, columns);
    });
    output[n].copy_(kernels.bmm(columns.view({how.groups, -1, area}))
                        .view({weight.size(0), out.height, out.width})
                        .add_(bias.view({-1, 1, 1})));
  }
  return output;
}

}  // namespace stoker
