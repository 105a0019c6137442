#include "runner/torch_values.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr std::pair<DataType, at::ScalarType> kTypes[] = {
    {DataType::kBool, at::kBool},     {DataType::kUint8, at::kByte},
    {DataType::kUint16, at::kUInt16}, {DataType::kUint32, at::kUInt32},
    {DataType::kUint64, at::kUInt64}, {DataType::kInt8, at::kChar},
    {DataType::kInt16, at::kShort},   {DataType::kInt32, at::kInt},
    {DataType::kInt64, at::kLong},    {DataType::kFp16, at::kHalf},
    {DataType::kFp32, at::kFloat},    {DataType::kFp64, at::kDouble},
    {DataType::kBf16, at::kBFloat16},
};

std::optional<at::ScalarType> ToTorch(DataType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return std::nullopt;
}

std::optional<DataType> ToDataType(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

bool ShowsMemoryOf(const at::Tensor& value,
                   absl::Span<const at::Tensor> inputs) {
  const auto* data = static_cast<const std::byte*>(value.const_data_ptr());
  for (const at::Tensor& input : inputs) {
    const auto* begin = static_cast<const std::byte*>(input.const_data_ptr());
    if (data >= begin && data < begin + input.nbytes()) return true;
  }
  return false;
}

// What keeps an output's bytes alive.
struct TorchOwner {
  at::Tensor value;
  std::shared_ptr<const void> lender;
};

}  // namespace

at::ScalarType ToTorch(ScalarType type) {
  if (const std::optional<DataType> dtype = DataTypeOf(type)) {
    return ToTorch(*dtype).value_or(at::ScalarType::Undefined);
  }
  // What the protocol hasn't got, weights may be.
  switch (type) {
    case ScalarType::kComplexHalf:
      return at::kComplexHalf;
    case ScalarType::kComplexFloat:
      return at::kComplexFloat;
    case ScalarType::kComplexDouble:
      return at::kComplexDouble;
    case ScalarType::kFloat8E4M3FN:
      return at::kFloat8_e4m3fn;
    case ScalarType::kFloat8E5M2:
      return at::kFloat8_e5m2;
    case ScalarType::kFloat8E4M3FNUZ:
      return at::kFloat8_e4m3fnuz;
    case ScalarType::kFloat8E5M2FNUZ:
      return at::kFloat8_e5m2fnuz;
    default:
      return at::ScalarType::Undefined;
  }
}

// Told the device, torch doesn't ask the driver whose memory it is, which would
// end a capture on another thread.
at::Tensor ViewOfStored(const StoredTensor& stored, void* data,
                        c10::Device device) {
  return at::for_blob(data, stored.sizes)
      .strides(stored.strides)
      .options(at::TensorOptions().dtype(ToTorch(stored.type)).device(device))
      .target_device(device)
      .make_tensor();
}

absl::StatusOr<at::Tensor> ViewAsTorch(const Tensor& tensor) {
  const std::optional<at::ScalarType> type = ToTorch(tensor.dtype);
  if (!type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program has no ", Absl(DataTypeName(tensor.dtype)), " tensors"));
  }
  const std::optional<int64_t> count = ElementCount(tensor.shape);
  const size_t element = DataTypeSize(tensor.dtype);
  if (!count || tensor.byte_size % element != 0 ||
      static_cast<uint64_t>(*count) != tensor.byte_size / element) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a tensor of shape ", ShapeString(tensor.shape), " and ",
        Absl(DataTypeName(tensor.dtype)), " has ", tensor.byte_size, " bytes"));
  }
  // torch has no read-only view; executables that write into inputs copy them.
  void* data = const_cast<std::byte*>(tensor.data);
  return at::from_blob(
      data, at::IntArrayRef(tensor.shape.data(), tensor.shape.size()),
      at::TensorOptions().dtype(*type));
}

absl::StatusOr<std::vector<at::Tensor>> ViewAllAsTorch(
    absl::Span<const Tensor> inputs) {
  std::vector<at::Tensor> views;
  views.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    ASSIGN_OR_RETURN(at::Tensor view, ViewAsTorch(input));
    views.push_back(std::move(view));
  }
  return views;
}

absl::StatusOr<Tensor> FromTorch(at::Tensor value,
                                 absl::Span<const at::Tensor> inputs,
                                 std::shared_ptr<const void> lender) {
  const std::optional<DataType> dtype = ToDataType(value.scalar_type());
  if (!dtype || value.layout() != at::kStrided || !value.device().is_cpu()) {
    return absl::InternalError(
        absl::StrCat("the program answered with a tensor of ", value.toString(),
                     ", which the protocol doesn't have"));
  }
  value = value.resolve_neg();
  if (!value.is_contiguous()) {
    value = value.contiguous();
  } else if (ShowsMemoryOf(value, inputs)) {
    value = value.clone(at::MemoryFormat::Contiguous);
  }
  Tensor tensor;
  tensor.dtype = *dtype;
  tensor.shape.assign(value.sizes().begin(), value.sizes().end());
  tensor.data = static_cast<const std::byte*>(value.const_data_ptr());
  tensor.byte_size = value.nbytes();
  tensor.owner = std::make_shared<TorchOwner>(
      TorchOwner{std::move(value), std::move(lender)});
  return tensor;
}

absl::StatusOr<at::Tensor> TensorOfValue(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) return value.toTensor();
  if (value.isInt()) return at::scalar_tensor(value.toInt(), at::kLong);
  if (value.isDouble()) {
    return at::scalar_tensor(value.toDouble(), at::kDouble);
  }
  if (value.isBool()) return at::scalar_tensor(value.toBool(), at::kBool);
  return absl::InternalError(
      absl::StrCat("the program answered with a ", value.tagKind(),
                   " where a tensor or a number was expected"));
}

absl::StatusOr<std::vector<at::Tensor>> TensorsOfValues(
    absl::Span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(values.size());
  for (const c10::IValue& value : values) {
    ASSIGN_OR_RETURN(at::Tensor tensor, TensorOfValue(value));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> AllFromTorch(
    std::vector<at::Tensor> values, absl::Span<const at::Tensor> inputs,
    const std::shared_ptr<const void>& lender) {
  std::vector<Tensor> tensors;
  tensors.reserve(values.size());
  for (at::Tensor& value : values) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     FromTorch(std::move(value), inputs, lender));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace stoker
