#include "rpc/typed_contents.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

using google::protobuf::RepeatedField;
using inference::InferTensorContents;

absl::string_view Name(const TensorForm& form) {
  return Absl(DataTypeName(form.dtype));
}

absl::Status WrongByteSize(const TensorForm& form, size_t expected,
                           uint64_t got) {
  return absl::InvalidArgumentError(absl::StrCat(
      "input byte size mismatch for input '", form.input, "' for model '",
      form.model, "'. Expected ", expected, ", got ", got));
}

absl::StatusOr<Tensor> CheckedView(const TensorForm& form, const void* data,
                                   size_t count,
                                   std::shared_ptr<const void> owner) {
  ASSIGN_OR_RETURN(const size_t expected, ByteSize(form));
  const size_t got = count * DataTypeSize(form.dtype);
  if (got != expected) return WrongByteSize(form, expected, got);
  return Tensor{form.dtype, form.shape, static_cast<const std::byte*>(data),
                got, std::move(owner)};
}

template <typename Narrow, typename Wide>
absl::StatusOr<Tensor> Narrowed(const TensorForm& form,
                                const RepeatedField<Wide>& values) {
  ASSIGN_OR_RETURN(const size_t expected, ByteSize(form));
  const size_t count = values.size();
  if (count * sizeof(Narrow) != expected) {
    return WrongByteSize(form, expected, count * sizeof(Narrow));
  }
  Buffer buffer(expected);
  auto* out = reinterpret_cast<Narrow*>(buffer.data());
  for (size_t i = 0; i < count; ++i) {
    const Wide value = values[static_cast<int>(i)];
    if (!std::in_range<Narrow>(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", form.input, "' for model '", form.model, "': element ", i,
          " is ", value, ", expected ", Name(form), " between ",
          static_cast<int64_t>(std::numeric_limits<Narrow>::min()), " and ",
          static_cast<int64_t>(std::numeric_limits<Narrow>::max())));
    }
    out[i] = static_cast<Narrow>(value);
  }
  return Tensor{form.dtype, form.shape, buffer.data(), expected,
                buffer.share()};
}

absl::Status CheckBool(const TensorForm& form, const Tensor& tensor) {
  const std::byte* const end = tensor.data + tensor.byte_size;
  const std::byte* const wrong = std::find_if(
      tensor.data, end, [](std::byte byte) { return byte > std::byte{1}; });
  if (wrong == end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input '", form.input, "' for model '", form.model,
                   "': BOOL element ", wrong - tensor.data, " is ",
                   static_cast<int>(*wrong), ", expected 0 or 1"));
}

// The field of InferTensorContents that carries a dtype; empty: none does.
absl::string_view ContentsField(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return "bool_contents";
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return "int_contents";
    case DataType::kInt64:
      return "int64_contents";
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return "uint_contents";
    case DataType::kUint64:
      return "uint64_contents";
    case DataType::kFp32:
      return "fp32_contents";
    case DataType::kFp64:
      return "fp64_contents";
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:  // no model takes it
      return "";
  }
  return "";
}

// Nothing but the dtype's own field may hold elements.
absl::Status CheckOnlyField(const TensorForm& form,
                            const InferTensorContents& contents) {
  const absl::string_view wanted = ContentsField(form.dtype);
  if (wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected explicit tensor data for input '", form.input,
                     "' for model '", form.model, "': ", Name(form),
                     " is taken from raw_input_contents only"));
  }
  const std::pair<absl::string_view, int> sizes[] = {
      {"bool_contents", contents.bool_contents_size()},
      {"int_contents", contents.int_contents_size()},
      {"int64_contents", contents.int64_contents_size()},
      {"uint_contents", contents.uint_contents_size()},
      {"uint64_contents", contents.uint64_contents_size()},
      {"fp32_contents", contents.fp32_contents_size()},
      {"fp64_contents", contents.fp64_contents_size()},
      {"bytes_contents", contents.bytes_contents_size()},
  };
  for (const auto& [field, size] : sizes) {
    if (size == 0 || field == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", form.input, "' for model '", form.model, "': expected ",
        Name(form), " elements in ", wanted, ", got ", size, " in ", field));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> ByteSize(const TensorForm& form) {
  const std::optional<int64_t> count = ElementCount(form.shape);
  int64_t bytes = 0;
  if (!count.has_value() ||
      __builtin_mul_overflow(
          *count, static_cast<int64_t>(DataTypeSize(form.dtype)), &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", form.input, "' for model '", form.model, "': shape ",
        ShapeExcerpt(form.shape), " has more elements than memory can hold"));
  }
  return static_cast<size_t>(bytes);
}

absl::StatusOr<Tensor> TensorFromRaw(const TensorForm& form,
                                     const RawContents& raw,
                                     std::shared_ptr<const void> owner) {
  ASSIGN_OR_RETURN(const size_t expected, ByteSize(form));
  if (raw.size != expected) return WrongByteSize(form, expected, raw.size);
  Tensor tensor{form.dtype, form.shape, raw.data, raw.size, std::move(owner)};
  if (raw.scattered != nullptr) {
    Buffer joined(raw.size);
    raw.scattered->CopyTo(raw.offset, raw.size, joined.data());
    tensor.data = joined.data();
    tensor.owner = joined.share();
  }
  if (form.dtype == DataType::kBool) RETURN_IF_ERROR(CheckBool(form, tensor));
  return tensor;
}

absl::StatusOr<Tensor> TensorFromSharedMemory(const TensorForm& form,
                                              const SharedMemoryRange& range) {
  ASSIGN_OR_RETURN(const size_t expected, ByteSize(form));
  if (range.byte_size != expected) {
    return WrongByteSize(form, expected, range.byte_size);
  }
  ASSIGN_OR_RETURN(const Buffer buffer,
                   range.region->Read(range.offset, range.byte_size));
  Tensor tensor{form.dtype, form.shape, buffer.data(), expected,
                buffer.share()};
  if (form.dtype == DataType::kBool) RETURN_IF_ERROR(CheckBool(form, tensor));
  return tensor;
}

absl::StatusOr<Tensor> TensorFromContents(const TensorForm& form,
                                          const InferTensorContents& contents,
                                          std::shared_ptr<const void> owner) {
  RETURN_IF_ERROR(CheckOnlyField(form, contents));
  const auto view = [&](const auto& values) {
    return CheckedView(form, values.data(), values.size(), std::move(owner));
  };
  switch (form.dtype) {
    case DataType::kBool:
      return view(contents.bool_contents());
    case DataType::kInt8:
      return Narrowed<int8_t>(form, contents.int_contents());
    case DataType::kInt16:
      return Narrowed<int16_t>(form, contents.int_contents());
    case DataType::kInt32:
      return view(contents.int_contents());
    case DataType::kInt64:
      return view(contents.int64_contents());
    case DataType::kUint8:
      return Narrowed<uint8_t>(form, contents.uint_contents());
    case DataType::kUint16:
      return Narrowed<uint16_t>(form, contents.uint_contents());
    case DataType::kUint32:
      return view(contents.uint_contents());
    case DataType::kUint64:
      return view(contents.uint64_contents());
    case DataType::kFp32:
      return view(contents.fp32_contents());
    case DataType::kFp64:
      return view(contents.fp64_contents());
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      break;
  }
  return absl::InternalError(
      absl::StrCat(Name(form), " has a field but no reader"));
}

}  // namespace stoker
