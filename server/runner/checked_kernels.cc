#include "runner/checked_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ops/_batch_norm_with_update_native.h>
#include <ATen/ops/_fft_c2c_native.h>
#include <ATen/ops/_fft_c2r_native.h>
#include <ATen/ops/_fft_r2c_native.h>
#include <ATen/ops/_native_batch_norm_legit_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_native.h>
#include <ATen/ops/_upsample_bilinear2d_aa_cpu_dispatch.h>
#include <ATen/ops/median_native.h>
#include <ATen/ops/nanmedian_native.h>
#include <ATen/ops/native_batch_norm_native.h>
#include <ATen/ops/native_group_norm_native.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "runner/replaced_kernels.h"

namespace stoker {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor Lcm(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor divisor = at::gcd(a, b);
  const at::Tensor safe =
      divisor.masked_fill(divisor.eq(0).bitwise_or(divisor.eq(-1)), 1);
  return at::div(a, safe, "trunc").mul(b).abs();
}

at::Tensor& LcmInPlace(at::Tensor& a, const at::Tensor& b) {
  return a.copy_(Lcm(a, b));
}

using MedianKernel = std::tuple<at::Tensor&, at::Tensor&> (*)(const at::Tensor&,
                                                              int64_t, bool,
                                                              at::Tensor&,
                                                              at::Tensor&);

template <MedianKernel kernel>
std::tuple<at::Tensor&, at::Tensor&> MedianOfCopy(const at::Tensor& self,
                                                  int64_t dim, bool keepdim,
                                                  at::Tensor& values,
                                                  at::Tensor& indices) {
  return kernel(self.contiguous(), dim, keepdim, values, indices);
}

// `name`d values, of which there is one a channel.
void CheckOfChannels(const char* name, const Optional& values,
                     int64_t channels) {
  if (!values.has_value() || !values->defined()) return;
  TORCH_CHECK(values->dim() == 1 && values->size(0) == channels, "expected ",
              name, " of [", channels, "], got ", values->sizes());
}

Optional Contiguous(const Optional& values) {
  if (!values.has_value() || !values->defined()) return values;
  return values->contiguous();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> GroupNorm(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    int64_t n, int64_t c, int64_t hxw, int64_t group, double eps) {
  CheckOfChannels("a weight", weight, c);
  CheckOfChannels("a bias", bias, c);
  return at::native::native_group_norm(input, Contiguous(weight),
                                       Contiguous(bias), n, c, hxw, group, eps);
}

void CheckBatchNorm(const at::Tensor& input, const Optional& weight,
                    const Optional& bias, const Optional& mean = {},
                    const Optional& variance = {}) {
  TORCH_CHECK(input.dim() >= 2, "expected an input of at least 2 dimensions, ",
              "got ", input.sizes());
  const int64_t channels = input.size(1);
  CheckOfChannels("a weight", weight, channels);
  CheckOfChannels("a bias", bias, channels);
  CheckOfChannels("a mean", mean, channels);
  CheckOfChannels("a variance", variance, channels);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> BatchNorm(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    const Optional& mean, const Optional& variance, bool training,
    double momentum, double eps) {
  CheckBatchNorm(input, weight, bias, mean, variance);
  return at::native::batch_norm_cpu(input, weight, bias, mean, variance,
                                    training, momentum, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> BatchNormLegit(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    at::Tensor& mean, at::Tensor& variance, bool training, double momentum,
    double eps) {
  CheckBatchNorm(input, weight, bias, mean, variance);
  return at::native::_batch_norm_legit_cpu(input, weight, bias, mean, variance,
                                           training, momentum, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> BatchNormLegitNoStats(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    bool training, double momentum, double eps) {
  CheckBatchNorm(input, weight, bias);
  return at::native::_batch_norm_legit_no_stats_cpu(input, weight, bias,
                                                    training, momentum, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BatchNormWithUpdate(
    const at::Tensor& input, const Optional& weight, const Optional& bias,
    at::Tensor& mean, at::Tensor& variance, double momentum, double eps) {
  CheckBatchNorm(input, weight, bias, mean, variance);
  return at::native::_batch_norm_with_update_cpu(input, weight, bias, mean,
                                                 variance, momentum, eps);
}

void CheckDimensions(const at::Tensor& self, at::IntArrayRef dims) {
  for (const int64_t dim : dims) {
    TORCH_CHECK(dim >= 0 && dim < self.dim(), "expected dimensions 0 to ",
                self.dim() - 1, ", got ", dim);
  }
}

at::Tensor FftR2c(const at::Tensor& self, at::IntArrayRef dims,
                  int64_t normalization, bool onesided) {
  CheckDimensions(self, dims);
  return at::native::_fft_r2c_mkl(self, dims, normalization, onesided);
}

at::Tensor FftC2r(const at::Tensor& self, at::IntArrayRef dims,
                  int64_t normalization, int64_t last_dim_size) {
  CheckDimensions(self, dims);
  return at::native::_fft_c2r_mkl(self, dims, normalization, last_dim_size);
}

at::Tensor FftC2c(const at::Tensor& self, at::IntArrayRef dims,
                  int64_t normalization, bool forward) {
  CheckDimensions(self, dims);
  return at::native::_fft_c2c_mkl(self, dims, normalization, forward);
}

// Queries [B, H, Q, D] of keys and values [B, H, K, D].
std::tuple<at::Tensor, at::Tensor> FlashAttention(const at::Tensor& query,
                                                  const at::Tensor& key,
                                                  const at::Tensor& value,
                                                  double dropout, bool causal,
                                                  const Optional& mask,
                                                  std::optional<double> scale) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 &&
                  key.sizes() == value.sizes() &&
                  query.size(0) == key.size(0) &&
                  query.size(1) == key.size(1) && query.size(3) == key.size(3),
              "expected keys and values of one size that fit the queries, got ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  return at::native::_scaled_dot_product_flash_attention_cpu(
      query, key, value, dropout, causal, mask, scale);
}

at::Tensor UpsampleOfCopy(const at::Tensor& self, at::IntArrayRef output_size,
                          bool align_corners, std::optional<double> scale_h,
                          std::optional<double> scale_w) {
  return at::cpu::_upsample_bilinear2d_aa(
      self.contiguous(self.suggest_memory_format()), output_size, align_corners,
      scale_h, scale_w);
}

bool ReplaceUncheckedKernels() {
  ReplaceCpuKernels([](torch::Library& library) {
    library.impl("lcm", Lcm);
    library.impl("lcm_", LcmInPlace);
    library.impl("median.dim_values", MedianOfCopy<at::native::median_out_cpu>);
    library.impl("nanmedian.dim_values",
                 MedianOfCopy<at::native::nanmedian_out_cpu>);
    library.impl("native_group_norm", GroupNorm);
    library.impl("native_batch_norm", BatchNorm);
    library.impl("_native_batch_norm_legit", BatchNormLegit);
    library.impl("_native_batch_norm_legit.no_stats", BatchNormLegitNoStats);
    library.impl("_batch_norm_with_update", BatchNormWithUpdate);
    library.impl("_scaled_dot_product_flash_attention_for_cpu", FlashAttention);
    library.impl("_upsample_bilinear2d_aa", UpsampleOfCopy);
    library.impl("_fft_r2c", FftR2c);
    library.impl("_fft_c2r", FftC2r);
    library.impl("_fft_c2c", FftC2c);
  });
  return true;
}

}  // namespace

void CheckKernelsArguments() {
  static const bool replaced = ReplaceUncheckedKernels();
  static_cast<void>(replaced);
}

}  // namespace stoker
