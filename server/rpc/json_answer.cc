#include "rpc/json_answer.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/utf8.h"
#include "repository/model_spec.h"
#include "rpc/json_elements.h"

namespace stoker {
namespace {

// Below this a copy costs less than a slice with a reference count of its own.
constexpr size_t kMinSharedTensor = 4096;

// Each text is behind its length.
constexpr size_t kLengthBytes = 4;

}  // namespace

size_t JsonLimit(const Tensor& tensor) {
  // A byte of a text may take six, and its length is more than its quotes.
  if (tensor.dtype == DataType::kBytes) return 6 * tensor.byte_size;
  const size_t each = DataTypeSize(tensor.dtype);
  return tensor.byte_size / each * (each > 4 ? 26 : each > 2 ? 16 : 7);
}

void AppendJsonText(std::string_view text, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < ' ') {
      out.append("\\u00");
      out.push_back(kDigits[c >> 4]);
      out.push_back(kDigits[c & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

void AppendTensor(const Tensor& tensor, ByteChain& message) {
  if (tensor.byte_size == 0) return;
  if (tensor.byte_size >= kMinSharedTensor && tensor.owner != nullptr) {
    message.Append({tensor.owner, tensor.data, tensor.byte_size});
    return;
  }
  ByteBlock copy(tensor.byte_size);
  std::memcpy(copy.data(), tensor.data, tensor.byte_size);
  message.Append(copy.Share());
}

JsonAnswer::JsonAnswer(const ModelSpec& spec, std::string_view id) {
  text_ = "{\"model_name\":";
  AppendJsonText(spec.name, text_);
  absl::StrAppend(&text_, ",\"model_version\":\"", spec.version, "\"");
  if (!id.empty()) {
    text_.append(",\"id\":");
    AppendJsonText(id, text_);
  }
  text_.append(",\"outputs\":[");
}

void JsonAnswer::BeginOutput(std::string_view name, const Tensor& tensor) {
  if (std::exchange(has_outputs_, true)) text_.push_back(',');
  text_.append("{\"name\":");
  AppendJsonText(name, text_);
  absl::StrAppend(&text_, ",\"datatype\":\"", Absl(DataTypeName(tensor.dtype)),
                  "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "]");
}

void JsonAnswer::AddBinarySize(size_t size) {
  absl::StrAppend(&text_, ",\"parameters\":{\"binary_data_size\":", size, "}");
}

absl::Status JsonAnswer::AddElements(std::string_view name,
                                     const Tensor& tensor) {
  text_.append(",\"data\":[");
  bool known = true;
  if (tensor.dtype == DataType::kBytes) {
    AddTexts(tensor);
  } else {
    known = WithJsonType(tensor.dtype, [&](auto type) {
      using T = decltype(type);
      const size_t count = tensor.byte_size / sizeof(T);
      const size_t begin = text_.size();
      text_.resize(begin + JsonLimit(tensor) + kMaxElementText);
      char* out = text_.data() + begin;
      for (size_t i = 0; i < count; ++i) {
        if (i > 0) *out++ = ',';
        if constexpr (std::is_same_v<T, bool>) {
          out = WriteElement(tensor.data[i] != std::byte{0}, out);
        } else {
          T element;
          std::memcpy(&element, tensor.data + i * sizeof(T), sizeof(T));
          out = WriteElement(element, out);
        }
      }
      text_.resize(static_cast<size_t>(out - text_.data()));
    });
  }
  text_.push_back(']');
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sending ", Absl(DataTypeName(tensor.dtype)),
                   " data via JSON is not supported. Please use the binary "
                   "data format for output '",
                   Absl(name), "'"));
}

void JsonAnswer::AddTexts(const Tensor& tensor) {
  size_t at = 0;
  while (at + kLengthBytes <= tensor.byte_size) {
    uint32_t size = 0;
    std::memcpy(&size, tensor.data + at, kLengthBytes);
    if (at > 0) text_.push_back(',');
    at += kLengthBytes;
    AppendJsonText({reinterpret_cast<const char*>(tensor.data) + at, size},
                   text_);
    at += size;
  }
}

std::string JsonAnswer::Take() {
  text_.append("]}");
  return std::move(text_);
}

}  // namespace stoker
