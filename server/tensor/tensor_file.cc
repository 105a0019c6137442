#include "tensor/tensor_file.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderBytes = size_t{100} << 20;  // the format's limit
constexpr const char* kMetadata = "__metadata__";

static_assert(std::endian::native == std::endian::little);

struct FormatName {
  DataType dtype;
  std::string_view name;
};
constexpr FormatName kNames[] = {
    {DataType::kBool, "BOOL"},  {DataType::kUint8, "U8"},
    {DataType::kUint16, "U16"}, {DataType::kUint32, "U32"},
    {DataType::kUint64, "U64"}, {DataType::kInt8, "I8"},
    {DataType::kInt16, "I16"},  {DataType::kInt32, "I32"},
    {DataType::kInt64, "I64"},  {DataType::kFp16, "F16"},
    {DataType::kBf16, "BF16"},  {DataType::kFp32, "F32"},
    {DataType::kFp64, "F64"},
};

std::optional<DataType> DtypeOf(const std::string& name) {
  for (const FormatName& row : kNames) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view NameOf(DataType dtype) {
  for (const FormatName& row : kNames) {
    if (row.dtype == dtype) return row.name;
  }
  return "";
}

absl::Status Wrong(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor file: ", name, ": ", what));
}

absl::StatusOr<Tensor> Read(const std::string& name, const json& entry,
                            std::string_view data) {
  if (!entry.is_object()) return Wrong(name, "expected an object");
  const auto dtype_name = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype_name == entry.end() || !dtype_name->is_string() ||
      shape == entry.end() || !shape->is_array() || offsets == entry.end() ||
      !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return Wrong(name, "expected dtype, shape and two data_offsets");
  }
  Tensor tensor;
  const std::optional<DataType> dtype = DtypeOf(dtype_name->get<std::string>());
  if (!dtype.has_value()) {
    return Wrong(
        name, absl::StrCat("unknown dtype ", dtype_name->get<std::string>()));
  }
  tensor.dtype = *dtype;
  for (const json& size : *shape) {
    if (!size.is_number_unsigned()) return Wrong(name, "expected whole sizes");
    tensor.shape.push_back(size.get<int64_t>());
  }
  const auto begin = (*offsets)[0].get<uint64_t>();
  const auto end = (*offsets)[1].get<uint64_t>();
  const std::optional<int64_t> count = ElementCount(tensor.shape);
  const size_t width = DataTypeSize(tensor.dtype);
  if (begin > end || end > data.size() || !count.has_value() ||
      static_cast<uint64_t>(*count) != (end - begin) / width ||
      (end - begin) % width != 0) {
    return Wrong(name,
                 absl::StrCat("bytes ", begin, " to ", end, " of ", data.size(),
                              " can't be ", ShapeString(tensor.shape)));
  }
  const Buffer buffer(end - begin);
  if (end > begin) std::memcpy(buffer.data(), data.data() + begin, end - begin);
  tensor.data = buffer.data();
  tensor.byte_size = buffer.size();
  tensor.owner = buffer.share();
  return tensor;
}

}  // namespace

NamedTensors Numbered(absl::Span<const Tensor> tensors) {
  NamedTensors numbered;
  for (size_t i = 0; i < tensors.size(); ++i) {
    numbered.emplace(absl::StrCat(i), tensors[i]);
  }
  return numbered;
}

absl::StatusOr<std::vector<Tensor>> InOrder(const NamedTensors& numbered) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < numbered.size(); ++i) {
    const auto found = numbered.find(absl::StrCat(i));
    if (found == numbered.end()) {
      return absl::InternalError(
          absl::StrCat("tensor ", i, " of ", numbered.size(), " is missing"));
    }
    tensors.push_back(found->second);
  }
  return tensors;
}

absl::StatusOr<std::string> TensorFileBytes(const NamedTensors& tensors) {
  json header = json::object();
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::string_view dtype = NameOf(tensor.dtype);
    if (dtype.empty() || name == kMetadata) {
      return Wrong(name, "has no form in a tensor file");
    }
    header[name] = {{"dtype", dtype},
                    {"shape", std::vector<int64_t>(tensor.shape.begin(),
                                                   tensor.shape.end())},
                    {"data_offsets", {offset, offset + tensor.byte_size}}};
    offset += tensor.byte_size;
  }
  std::string text = JsonText(header);
  // The bytes begin at a multiple of 8: readers map them.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string content;
  content.reserve(kLengthBytes + length + offset);
  content.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  content.append(text);
  for (const auto& [name, tensor] : tensors) {
    content.append(reinterpret_cast<const char*>(tensor.data),
                   tensor.byte_size);
  }
  return content;
}

absl::StatusOr<NamedTensors> ParseTensorFile(const std::string& content) {
  uint64_t length = 0;
  if (content.size() < kLengthBytes) return Wrong("header", "is cut short");
  std::memcpy(&length, content.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > content.size() - kLengthBytes) {
    return Wrong("header", absl::StrCat("of ", length, " bytes in a file of ",
                                        content.size()));
  }
  const json header =
      ReadJson(std::string_view(content).substr(kLengthBytes, length));
  if (!header.is_object()) return Wrong("header", "expected a JSON object");
  const std::string_view data =
      std::string_view(content).substr(kLengthBytes + length);
  NamedTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    absl::StatusOr<Tensor> tensor = Read(name, entry, data);
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, *std::move(tensor));
  }
  return tensors;
}

}  // namespace stoker
