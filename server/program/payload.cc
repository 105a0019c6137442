#include "program/payload.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "program/json_cursor.h"
#include "program/json_member.h"
#include "program/limits.h"

namespace stoker {
namespace {

// {"as_int": n}; symbols have no place in a stored tensor.
absl::StatusOr<int64_t> ReadSize(const JsonCursor& size) {
  ASSIGN_OR_RETURN(const JsonCursor number, size.Member("as_int"));
  ASSIGN_OR_RETURN(const int64_t value, number.Int());
  if (value < 0) return number.Error("a number that is not negative");
  return value;
}

absl::StatusOr<std::vector<int64_t>> ReadSizes(const JsonCursor& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonCursor> elements, list.Elements());
  if (elements.size() > kMaxStoredRank) {
    return list.Error(absl::StrCat("at most ", kMaxStoredRank, " axes"));
  }
  std::vector<int64_t> values;
  for (const JsonCursor& element : elements) {
    ASSIGN_OR_RETURN(const int64_t value, ReadSize(element));
    values.push_back(value);
  }
  return values;
}

// Elements from the start of the storage to behind the tensor's last one;
// nullopt on overflow.
std::optional<int64_t> Extent(const StoredTensor& tensor) {
  if (std::count(tensor.sizes.begin(), tensor.sizes.end(), 0) > 0) return 0;
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t step = 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  if (__builtin_add_overflow(last, int64_t{1}, &last)) return std::nullopt;
  return last;
}

// torch counts elements in int64 without checks of its own.
bool CountOverflows(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  return std::any_of(sizes.begin(), sizes.end(), [&count](int64_t size) {
    return __builtin_mul_overflow(count, size, &count);
  });
}

// Points the tensor at its first element.
absl::Status Place(const JsonCursor& meta, std::string_view bytes,
                   StoredTensor& tensor) {
  const auto width = static_cast<int64_t>(ScalarTypeBytes(tensor.type));
  const std::optional<int64_t> elements = Extent(tensor);
  int64_t end = 0;
  if (!elements || CountOverflows(tensor.sizes) ||
      __builtin_mul_overflow(*elements, width, &end) ||
      static_cast<uint64_t>(end) > bytes.size()) {
    return meta.Error(absl::StrCat("a tensor within the ", bytes.size(),
                                   " bytes of ", tensor.member));
  }
  // An empty tensor may claim to start anywhere; its pointer stays inside.
  const int64_t start = end == 0 ? 0 : tensor.offset * width;
  tensor.data = reinterpret_cast<const std::byte*>(bytes.data()) + start;
  const auto alignment = static_cast<uintptr_t>(std::min<int64_t>(width, 8));
  if (reinterpret_cast<uintptr_t>(tensor.data) % alignment != 0) {
    return meta.Error("a tensor that is aligned to its elements' size",
                      absl::StrCat("one at byte ", start, " of ", tensor.member,
                                   ", which isn't"));
  }
  return absl::OkStatus();
}

absl::Status ReadMeta(const JsonCursor& meta, StoredTensor& tensor) {
  ASSIGN_OR_RETURN(const JsonCursor dtype, meta.Member("dtype"));
  ASSIGN_OR_RETURN(const int64_t code, dtype.Int());
  const std::optional<ScalarType> type = ScalarTypeOfCode(code);
  if (!type) return dtype.Error("a dtype of known size");
  tensor.type = *type;
  ASSIGN_OR_RETURN(const JsonCursor sizes, meta.Member("sizes"));
  ASSIGN_OR_RETURN(tensor.sizes, ReadSizes(sizes));
  ASSIGN_OR_RETURN(const JsonCursor strides, meta.Member("strides"));
  ASSIGN_OR_RETURN(tensor.strides, ReadSizes(strides));
  if (tensor.strides.size() != tensor.sizes.size()) {
    return strides.Error("as many strides as sizes");
  }
  ASSIGN_OR_RETURN(const JsonCursor offset, meta.Member("storage_offset"));
  ASSIGN_OR_RETURN(tensor.offset, ReadSize(offset));
  ASSIGN_OR_RETURN(const JsonCursor layout, meta.Member("layout"));
  if (layout.value() != kStridedLayout) return layout.Error("a dense layout");
  ASSIGN_OR_RETURN(const JsonCursor device, meta.Member("device"));
  ASSIGN_OR_RETURN(const JsonCursor kind, device.Member("type"));
  ASSIGN_OR_RETURN(tensor.device, kind.String());
  if (tensor.device != "cpu" && tensor.device != "cuda") {
    return kind.Error("cpu or cuda");
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTensor> ReadEntry(const ZipArchive& archive,
                                       const std::string& folder,
                                       const JsonCursor& entry) {
  StoredTensor tensor;
  ASSIGN_OR_RETURN(const JsonCursor pickle, entry.Member("use_pickle"));
  ASSIGN_OR_RETURN(const bool is_pickled, pickle.Bool());
  if (is_pickled) {
    return pickle.Error(
        "false (plain bytes; custom objects and tensor subclasses are pickled, "
        "and unpickling runs code)");
  }
  ASSIGN_OR_RETURN(const JsonCursor meta, entry.Member("tensor_meta"));
  RETURN_IF_ERROR(ReadMeta(meta, tensor));
  ASSIGN_OR_RETURN(const JsonCursor path, entry.Member("path_name"));
  ASSIGN_OR_RETURN(const std::string path_name, path.String());
  tensor.member = folder + path_name;
  const absl::StatusOr<std::string_view> bytes = archive.View(tensor.member);
  if (path_name.find('/') != path_name.npos || !bytes.ok()) {
    return path.Error(absl::StrCat("a member of ", folder));
  }
  RETURN_IF_ERROR(Place(meta, *bytes, tensor));
  ASSIGN_OR_RETURN(const std::optional<JsonCursor> is_param,
                   entry.Find("is_param"));
  if (is_param) {
    ASSIGN_OR_RETURN(tensor.is_parameter, is_param->Bool());
  }
  return tensor;
}

absl::Status ReadConfig(const ZipArchive& archive, const std::string& folder,
                        std::string_view file, StoredTensors& tensors) {
  const std::string name = absl::StrCat(folder, Absl(file));
  const std::string where = absl::StrCat(archive.path(), ": ", name);
  ASSIGN_OR_RETURN(const nlohmann::json document,
                   ReadJsonMember(archive, name, kMaxConfigBytes));
  ASSIGN_OR_RETURN(const JsonCursor config,
                   JsonCursor(document, where).Member("config"));
  ASSIGN_OR_RETURN(auto entries, config.Members());
  for (auto& [tensor_name, entry] : entries) {
    ASSIGN_OR_RETURN(StoredTensor tensor, ReadEntry(archive, folder, entry));
    if (!tensors.emplace(tensor_name, std::move(tensor)).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          archive.path(), ": expected weights and constants of distinct names,",
          " got ", tensor_name, " twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Payload> ReadPayload(const ZipArchive& archive,
                                    const std::string& folder) {
  Payload payload;
  RETURN_IF_ERROR(ReadConfig(archive, folder + "data/weights/",
                             "model_weights_config.json", payload.tensors));
  RETURN_IF_ERROR(ReadConfig(archive, folder + "data/constants/",
                             "model_constants_config.json", payload.tensors));
  std::set<std::string_view> members;
  for (const auto& [name, tensor] : payload.tensors) {
    if (!members.insert(tensor.member).second) continue;
    payload.bytes += static_cast<int64_t>(
        archive.members().find(tensor.member)->second.size);
  }
  return payload;
}

}  // namespace stoker
