#include "runner/quantised_operators.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace stoker {
namespace {

using MaybeTensor = std::optional<at::Tensor>;
using MaybeType = std::optional<at::ScalarType>;

// Of what numbers are quantised to; nullopt: they aren't to that.
std::optional<std::pair<double, double>> LimitsOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return std::pair(0.0, 255.0);
    case at::kChar:
      return std::pair(-128.0, 127.0);
    case at::kUInt16:
      return std::pair(0.0, 65535.0);
    case at::kShort:
      return std::pair(-32768.0, 32767.0);
    case at::kInt:
      return std::pair<double, double>(std::numeric_limits<int32_t>::min(),
                                       std::numeric_limits<int32_t>::max());
    case at::kFloat8_e5m2:
      return std::pair(-57344.0, 57344.0);
    case at::kFloat8_e4m3fn:
      return std::pair(-448.0, 448.0);
    default:
      return std::nullopt;
  }
}

void CheckLimits(int64_t least, int64_t most, at::ScalarType dtype) {
  const auto limits = LimitsOf(dtype);
  TORCH_CHECK(limits.has_value(),
              "expected to quantise to integers of at most 32 bits or 8-bit "
              "floating point, got ",
              dtype);
  TORCH_CHECK(static_cast<double>(least) >= limits->first &&
                  static_cast<double>(most) <= limits->second,
              "expected limits of ", limits->first, " to ", limits->second,
              " for ", dtype, ", got ", least, " to ", most);
}

void CheckOne(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.numel() == 1, "expected a ", what, " of one element, got ",
              tensor.sizes());
}

// What is quantised, as float32.
at::Tensor Float(const at::Tensor& input) {
  if (input.scalar_type() == at::kHalf ||
      input.scalar_type() == at::kBFloat16) {
    return input.to(at::kFloat);
  }
  TORCH_CHECK(input.scalar_type() == at::kFloat,
              "expected numbers of float32, float16 or bfloat16, got ",
              input.scalar_type());
  return input;
}

at::Tensor QuantizePerTensor(const at::Tensor& input, double scale,
                             int64_t zero_point, int64_t least, int64_t most,
                             at::ScalarType dtype) {
  CheckLimits(least, most, dtype);
  return Float(input)
      .mul(1.0 / scale)
      .round()
      .add(zero_point)
      .clamp(least, most)
      .to(dtype);
}

at::Tensor QuantizePerTensorOfTensors(const at::Tensor& input,
                                      const at::Tensor& scale,
                                      const at::Tensor& zero_point,
                                      int64_t least, int64_t most,
                                      at::ScalarType dtype) {
  CheckOne("zero point", zero_point);
  CheckOne("scale", scale);
  return QuantizePerTensor(input, scale.item<double>(),
                           zero_point.item<int64_t>(), least, most, dtype);
}

at::Tensor QuantizePerTensorOfTensors2(const at::Tensor& input,
                                       const at::Tensor& scale,
                                       const at::Tensor& zero_point,
                                       const at::Tensor& least,
                                       const at::Tensor& most,
                                       at::ScalarType dtype) {
  CheckOne("least value", least);
  CheckOne("largest value", most);
  return QuantizePerTensorOfTensors(input, scale, zero_point,
                                    least.item<int64_t>(), most.item<int64_t>(),
                                    dtype);
}

at::Tensor DequantizePerTensor(const at::Tensor& input, double scale,
                               int64_t zero_point, int64_t /*least*/,
                               int64_t /*most*/, at::ScalarType dtype,
                               MaybeType out_dtype) {
  TORCH_CHECK(input.scalar_type() == dtype && LimitsOf(dtype).has_value(),
              "expected numbers that were quantised to ", dtype, ", got ",
              input.scalar_type());
  return input.to(out_dtype.value_or(at::kFloat)).sub(zero_point).mul(scale);
}

at::Tensor DequantizePerTensorOfTensors(const at::Tensor& input,
                                        const at::Tensor& scale,
                                        const at::Tensor& zero_point,
                                        int64_t least, int64_t most,
                                        at::ScalarType dtype,
                                        MaybeType out_dtype) {
  CheckOne("zero point", zero_point);
  CheckOne("scale", scale);
  return DequantizePerTensor(input, scale.item<double>(),
                             zero_point.item<int64_t>(), least, most, dtype,
                             out_dtype);
}

at::Tensor DequantizePerTensorOfTensors2(
    const at::Tensor& input, const at::Tensor& scale,
    const at::Tensor& zero_point, const at::Tensor& least,
    const at::Tensor& most, at::ScalarType dtype, MaybeType out_dtype) {
  CheckOne("least value", least);
  CheckOne("largest value", most);
  return DequantizePerTensorOfTensors(input, scale, zero_point,
                                      least.item<int64_t>(),
                                      most.item<int64_t>(), dtype, out_dtype);
}

// One number for each channel, such that it meets the input's axis.
at::Tensor AlongAxis(const at::Tensor& numbers, const at::Tensor& input,
                     int64_t axis) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  const int64_t at = at::maybe_wrap_dim(axis, input.dim());
  TORCH_CHECK(numbers.numel() == input.size(at),
              "expected a number for each of ", input.size(at),
              " channels, got ", numbers.sizes());
  shape[static_cast<size_t>(at)] = numbers.numel();
  return numbers.reshape(shape);
}

at::Tensor QuantizePerChannel(const at::Tensor& input, const at::Tensor& scales,
                              const at::Tensor& zero_points, int64_t axis,
                              int64_t least, int64_t most,
                              at::ScalarType dtype) {
  const at::Tensor numbers = Float(input);
  CheckLimits(least, most, dtype);
  return numbers.mul(AlongAxis(scales, input, axis).reciprocal())
      .round()
      .add(AlongAxis(zero_points, input, axis))
      .clamp(least, most)
      .to(dtype);
}

at::Tensor DequantizePerChannel(const at::Tensor& input,
                                const at::Tensor& scales,
                                const MaybeTensor& zero_points, int64_t axis,
                                int64_t least, int64_t most,
                                at::ScalarType dtype, MaybeType out_dtype) {
  TORCH_CHECK(input.scalar_type() == dtype,
              "expected numbers that were quantised to ", dtype, ", got ",
              input.scalar_type());
  CheckLimits(least, most, dtype);
  const at::Tensor scale = AlongAxis(scales, input, axis);
  const at::Tensor shifted =
      zero_points.has_value() ? input.sub(AlongAxis(*zero_points, input, axis))
                              : input;
  return shifted.mul(scale).to(out_dtype.value_or(at::kFloat));
}

void CheckOnePerToken(const at::Tensor& input, const at::Tensor& scales,
                      const at::Tensor& zero_points) {
  TORCH_CHECK(input.dim() > 0, "expected tokens, got a number");
  const int64_t tokens = c10::multiply_integers(
      input.sizes().slice(0, static_cast<size_t>(input.dim() - 1)));
  TORCH_CHECK(scales.numel() == tokens && zero_points.numel() == tokens,
              "expected a scale and a zero point for each of ", tokens,
              " tokens, got ", scales.sizes(), " and ", zero_points.sizes());
}

at::Tensor QuantizePerToken(const at::Tensor& input, const at::Tensor& scales,
                            const at::Tensor& zero_points, int64_t least,
                            int64_t most, at::ScalarType dtype) {
  CheckLimits(least, most, dtype);
  CheckOnePerToken(input, scales, zero_points);
  return input.mul(scales.reciprocal())
      .add(zero_points)
      .round()
      .clamp(least, most)
      .to(dtype);
}

at::Tensor DequantizePerToken(const at::Tensor& input, const at::Tensor& scales,
                              const at::Tensor& zero_points, int64_t /*least*/,
                              int64_t /*most*/, at::ScalarType /*dtype*/,
                              at::ScalarType out_dtype) {
  return input.sub(zero_points).mul(scales).to(out_dtype);
}

// The matrix with a row for each group.
at::Tensor Grouped(const at::Tensor& matrix, const at::Tensor& scales,
                   int64_t size) {
  TORCH_CHECK(size > 1, "expected groups of more than one, got ", size);
  TORCH_CHECK(matrix.dim() == 2 && scales.dim() > 0,
              "expected a matrix and scales, got ", matrix.sizes(), " and ",
              scales.sizes());
  const int64_t width = matrix.size(-1);
  if (size > width && scales.size(-1) == 1) size = width;
  TORCH_CHECK(size > 0 && width % size == 0, "expected groups that divide ",
              width, ", got ", size);
  return matrix.reshape({-1, size});
}

at::Tensor QuantizePerChannelGroup(const at::Tensor& input,
                                   const at::Tensor& scales,
                                   const at::Tensor& zero_points, int64_t least,
                                   int64_t most, at::ScalarType dtype,
                                   int64_t size) {
  const at::Tensor groups = Grouped(input, scales, size);
  TORCH_CHECK(!groups.isnan().any().item<bool>(),
              "expected numbers, got NaN among them");
  return groups.mul(scales.reshape({-1, 1}).reciprocal())
      .add(zero_points.reshape({-1, 1}))
      .round()
      .clamp(least, most)
      .to(dtype)
      .reshape_as(input);
}

at::Tensor DequantizePerChannelGroup(const at::Tensor& input,
                                     const at::Tensor& scales,
                                     const MaybeTensor& zero_points,
                                     int64_t /*least*/, int64_t /*most*/,
                                     at::ScalarType /*dtype*/, int64_t size,
                                     at::ScalarType out_dtype) {
  const at::Tensor groups = Grouped(input, scales, size);
  const at::Tensor zero = zero_points.has_value()
                              ? zero_points->reshape({-1, 1})
                              : at::zeros({}, scales.options().dtype(at::kInt));
  return groups.sub(zero)
      .mul(scales.reshape({-1, 1}))
      .reshape_as(input)
      .to(out_dtype);
}

using ScaleAndZeroPoint = std::tuple<at::Tensor, at::Tensor>;

// Least and largest, 0 among them; nullopt: there are none yet, as observers
// begin.
std::optional<std::pair<at::Tensor, at::Tensor>> RangeOf(
    const at::Tensor& input, int64_t least, int64_t most,
    at::ScalarType dtype) {
  TORCH_CHECK(input.scalar_type() == at::kFloat ||
                  input.scalar_type() == at::kHalf ||
                  input.scalar_type() == at::kBFloat16,
              "expected numbers of float32, float16 or bfloat16, got ",
              input.scalar_type());
  TORCH_CHECK(LimitsOf(dtype).has_value(), "expected a quantised type, got ",
              dtype);
  TORCH_CHECK(least <= 0 && most >= 0 && least < most,
              "expected limits with 0 between them, got ", least, " to ", most);
  const auto [low, high] = at::aminmax(input);
  const auto minimum = low.item<double>();
  const auto maximum = high.item<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (minimum == kInfinity && maximum == -kInfinity) return std::nullopt;
  TORCH_CHECK(minimum <= maximum, "expected numbers, got NaN among them");
  return std::pair(at::minimum(low, at::zeros_like(low)),
                   at::maximum(high, at::zeros_like(high)));
}

ScaleAndZeroPoint Unknown() {
  return {at::ones({1}, at::kFloat), at::zeros({1}, at::kLong)};
}

ScaleAndZeroPoint ChooseQparams(const at::Tensor& input, int64_t least,
                                int64_t most, double eps,
                                at::ScalarType dtype) {
  const auto range = RangeOf(input, least, most, dtype);
  if (!range.has_value()) return Unknown();
  const auto& [low, high] = *range;
  const at::Tensor scale =
      at::maximum(high.sub(low).div(static_cast<double>(most - least)),
                  at::full({1}, eps, at::kFloat));
  const at::Tensor zero_point =
      at::rsub(low.div(scale).round().to(at::kInt), least).clamp(least, most);
  return {scale.to(at::kDouble), zero_point.to(at::kLong)};
}

ScaleAndZeroPoint ChooseQparamsSymmetric(const at::Tensor& input, int64_t least,
                                         int64_t most, double eps,
                                         at::ScalarType dtype) {
  const auto range = RangeOf(input, least, most, dtype);
  if (!range.has_value()) return Unknown();
  const at::Tensor high = at::maximum(range->first.neg(), range->second);
  const at::Tensor scale =
      at::maximum(high.div(static_cast<double>(most - least) / 2),
                  at::full({1}, eps, at::kFloat));
  constexpr int64_t kMiddleOfBytes = 128;
  return {scale.to(at::kDouble),
          at::full({1}, dtype == at::kByte ? kMiddleOfBytes : 0, at::kLong)};
}

ScaleAndZeroPoint ChooseQparamsPerToken(const at::Tensor& input,
                                        at::ScalarType dtype) {
  TORCH_CHECK(dtype == at::kChar, "expected to quantise to int8, got ", dtype);
  at::Tensor scales = input.abs().amax(/*dim=*/-1, /*keepdim=*/true);
  if (scales.scalar_type() == at::kHalf) scales = scales.to(at::kFloat);
  constexpr double kLeastScale = 1e-5;
  constexpr int64_t kMost = 127;
  scales = scales.clamp_min(kLeastScale).div(kMost);
  return {scales, at::zeros_like(scales)};
}

ScaleAndZeroPoint ChooseQparamsPerTokenAsymmetric(const at::Tensor& input,
                                                  at::ScalarType /*dtype*/) {
  constexpr int64_t kLeast = -128, kMost = 127;
  const at::Tensor least = input.amin(/*dim=*/-1, /*keepdim=*/true);
  const at::Tensor most = input.amax(/*dim=*/-1, /*keepdim=*/true);
  const at::Tensor low = at::minimum(least, at::zeros_like(least));
  const at::Tensor high = at::maximum(most, at::zeros_like(most));
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  const at::Tensor scale = high.sub(low)
                               .div(static_cast<double>(kMost - kLeast))
                               .clamp_min(kEpsilon);
  const at::Tensor scaled_low = low.div(scale), scaled_high = high.div(scale);
  const at::Tensor errors = scaled_low.add(kLeast).add(scaled_high.add(kMost));
  const at::Tensor zero_point =
      at::where(errors.gt(0), at::rsub(scaled_low, kLeast),
                at::rsub(scaled_high, kMost))
          .clamp(kLeast, kMost)
          .round();
  return {scale.to(at::kDouble), zero_point.to(at::kLong)};
}

// Registered for as long as the library lives.
bool RegisterOperatorsOnce() {
  static torch::Library* const library =
      new torch::Library(torch::Library::FRAGMENT, "quantized_decomposed",
                         std::nullopt, __FILE__, __LINE__);
  const auto add = [](const char* schema, auto* kernel) {
    library->def(schema, torch::dispatch(c10::DispatchKey::CPU, kernel));
  };
  add("quantize_per_tensor(Tensor input, float scale, int zero_point, "
      "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
      &QuantizePerTensor);
  add("quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor "
      "zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
      &QuantizePerTensorOfTensors);
  add("quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor "
      "zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> "
      "Tensor",
      &QuantizePerTensorOfTensors2);
  add("dequantize_per_tensor(Tensor input, float scale, int zero_point, "
      "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
      "out_dtype=None) -> Tensor",
      &DequantizePerTensor);
  add("dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor "
      "zero_point, int quant_min, int quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &DequantizePerTensorOfTensors);
  add("dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor "
      "zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &DequantizePerTensorOfTensors2);
  add("quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, "
      "int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
      &QuantizePerChannel);
  add("dequantize_per_channel(Tensor input, Tensor scales, Tensor? "
      "zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, "
      "*, ScalarType? out_dtype=None) -> Tensor",
      &DequantizePerChannel);
  add("quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
      "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
      &QuantizePerToken);
  add("dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
      "int quant_min, int quant_max, ScalarType dtype, ScalarType "
      "output_dtype) -> Tensor",
      &DequantizePerToken);
  add("quantize_per_channel_group(Tensor input, Tensor scales, Tensor "
      "zero_points, int quant_min, int quant_max, ScalarType dtype, int "
      "group_size) -> Tensor",
      &QuantizePerChannelGroup);
  add("dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? "
      "zero_points, int quant_min, int quant_max, ScalarType dtype, int "
      "group_size, ScalarType output_dtype) -> Tensor",
      &DequantizePerChannelGroup);
  add("choose_qparams.tensor(Tensor input, int quant_min, int quant_max, "
      "float eps, ScalarType dtype) -> (Tensor, Tensor)",
      &ChooseQparams);
  add("choose_qparams_symmetric.tensor(Tensor input, int quant_min, int "
      "quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
      &ChooseQparamsSymmetric);
  add("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, "
      "Tensor)",
      &ChooseQparamsPerToken);
  add("choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) "
      "-> (Tensor, Tensor)",
      &ChooseQparamsPerTokenAsymmetric);
  return true;
}

}  // namespace

void RegisterQuantisedOperators() {
  static const bool registered = RegisterOperatorsOnce();
  static_cast<void>(registered);
}

}  // namespace stoker
