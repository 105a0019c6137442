#include "repository/payload.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "program/scalar_type.h"

namespace stoker {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;
constexpr size_t kMaxRank = 64;

// A list of {"as_int": n}; symbols have no place in a stored tensor.
absl::StatusOr<std::vector<int64_t>> ReadInts(const JsonCursor& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonCursor> elements, list.Elements());
  if (elements.size() > kMaxRank) {
    return list.Error(absl::StrCat("at most ", kMaxRank, " axes"));
  }
  std::vector<int64_t> values;
  for (const JsonCursor& element : elements) {
    ASSIGN_OR_RETURN(const JsonCursor number, element.Member("as_int"));
    ASSIGN_OR_RETURN(const int64_t value, number.Int());
    if (value < 0) return number.Error("a number that is not negative");
    values.push_back(value);
  }
  return values;
}

// Elements from the start of the storage to the tensor's last one; nullopt on
// overflow.
std::optional<int64_t> Extent(const PayloadTensor& tensor) {
  for (int64_t size : tensor.sizes) {
    if (size == 0) return 0;
  }
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

absl::Status CheckFits(const JsonCursor& meta, const PayloadTensor& tensor,
                       uint64_t member_bytes) {
  const std::optional<int64_t> element_bytes = ScalarTypeBytes(tensor.dtype);
  if (!element_bytes) return meta.Error("a dtype of known size");
  const std::optional<int64_t> elements = Extent(tensor);
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, *element_bytes, &bytes) ||
      static_cast<uint64_t>(bytes) > member_bytes) {
    return meta.Error(absl::StrCat("a tensor within the ", member_bytes,
                                   " bytes of ", tensor.member));
  }
  return absl::OkStatus();
}

absl::Status ReadMeta(const JsonCursor& meta, PayloadTensor& tensor) {
  ASSIGN_OR_RETURN(const JsonCursor dtype, meta.Member("dtype"));
  ASSIGN_OR_RETURN(tensor.dtype, dtype.Int());
  ASSIGN_OR_RETURN(const JsonCursor sizes, meta.Member("sizes"));
  ASSIGN_OR_RETURN(tensor.sizes, ReadInts(sizes));
  ASSIGN_OR_RETURN(const JsonCursor strides, meta.Member("strides"));
  ASSIGN_OR_RETURN(tensor.strides, ReadInts(strides));
  if (tensor.strides.size() != tensor.sizes.size()) {
    return strides.Error("as many strides as sizes");
  }
  ASSIGN_OR_RETURN(const JsonCursor offset, meta.Member("storage_offset"));
  ASSIGN_OR_RETURN(const JsonCursor offset_int, offset.Member("as_int"));
  ASSIGN_OR_RETURN(tensor.offset, offset_int.Int());
  if (tensor.offset < 0) {
    return offset_int.Error("a number that is not negative");
  }
  ASSIGN_OR_RETURN(const JsonCursor layout, meta.Member("layout"));
  if (layout.value() != kStridedLayout) return layout.Error("a dense layout");
  ASSIGN_OR_RETURN(const JsonCursor device, meta.Member("device"));
  ASSIGN_OR_RETURN(const JsonCursor type, device.Member("type"));
  ASSIGN_OR_RETURN(tensor.device, type.String());
  return absl::OkStatus();
}

absl::Status ReadEntry(const ZipArchive& archive, const std::string& folder,
                       const JsonCursor& entry, PayloadTensor& tensor) {
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
  const auto member = archive.members().find(tensor.member);
  if (path_name.find('/') != path_name.npos ||
      member == archive.members().end()) {
    return path.Error(absl::StrCat("a member of ", folder));
  }
  return CheckFits(meta, tensor, member->second.size);
}

absl::Status ReadConfig(const ZipArchive& archive, const std::string& folder,
                        std::string_view file,
                        std::vector<PayloadTensor>& tensors) {
  const std::string name = absl::StrCat(folder, Absl(file));
  const std::string where = absl::StrCat(archive.path(), ": ", name);
  ASSIGN_OR_RETURN(const std::string_view text,
                   archive.ReadChecked(name, kMaxConfigBytes));
  ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(text, where));
  ASSIGN_OR_RETURN(const JsonCursor config,
                   JsonCursor(document, where).Member("config"));
  ASSIGN_OR_RETURN(const auto entries, config.Members());
  for (const auto& [tensor_name, entry] : entries) {
    PayloadTensor tensor;
    tensor.name = tensor_name;
    RETURN_IF_ERROR(ReadEntry(archive, folder, entry, tensor));
    tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Payload> ReadPayload(const ZipArchive& archive,
                                    const std::string& top) {
  Payload payload;
  const std::string folders[] = {top + "/data/weights/",
                                 top + "/data/constants/"};
  RETURN_IF_ERROR(ReadConfig(archive, folders[0], "model_weights_config.json",
                             payload.tensors));
  RETURN_IF_ERROR(ReadConfig(archive, folders[1], "model_constants_config.json",
                             payload.tensors));
  std::sort(payload.tensors.begin(), payload.tensors.end(),
            [](const PayloadTensor& a, const PayloadTensor& b) {
              return a.name < b.name;
            });
  std::set<std::string_view> used;
  for (size_t i = 0; i < payload.tensors.size(); ++i) {
    if (i > 0 && payload.tensors[i].name == payload.tensors[i - 1].name) {
      return absl::InvalidArgumentError(
          absl::StrCat(archive.path(),
                       ": expected weights and constants of distinct names, ",
                       "got ", payload.tensors[i].name, " twice"));
    }
    used.insert(payload.tensors[i].member);
  }
  for (std::string_view member : used) {
    payload.bytes +=
        static_cast<int64_t>(archive.members().find(member)->second.size);
  }
  std::string identity;
  for (const std::string& folder : folders) {
    for (auto it = archive.members().lower_bound(folder);
         it != archive.members().end() && it->first.starts_with(folder); ++it) {
      absl::StrAppend(&identity, it->first.substr(top.size()), " ",
                      it->second.size, " ", it->second.crc32, "\n");
    }
  }
  payload.digest = Sha256Hex(identity);
  return payload;
}

}  // namespace stoker
