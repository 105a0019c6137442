#include "runner/program_archive.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runner/program_check.h"

namespace stoker {
namespace {

using nlohmann::json;

// A graph of a hundred thousand nodes takes about 100 MB of JSON.
constexpr uint64_t kMaxProgramBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxConfigBytes = uint64_t{256} << 20;
// torch itself stops at 64 dimensions in its kernels.
constexpr size_t kMaxRank = 64;
constexpr int kStridedLayout = 7;  // of the export schema's Layout

// The member `key` of an object; null when there is none or `object` is none.
const json* Find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// A size as the schema writes it, {"as_int": 3}, when it is not negative.
std::optional<int64_t> AsSize(const json* value) {
  const json* as_int = value == nullptr ? nullptr : Find(*value, "as_int");
  if (as_int == nullptr || !as_int->is_number_integer()) return std::nullopt;
  const int64_t size = as_int->get<int64_t>();
  return size < 0 ? std::nullopt : std::optional(size);
}

std::optional<std::vector<int64_t>> AsSizes(const json* list) {
  if (list == nullptr || !list->is_array() || list->size() > kMaxRank) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const json& element : *list) {
    const std::optional<int64_t> size = AsSize(&element);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// Bytes from the start of the storage to the end of the last element; nullopt
// on overflow.
std::optional<int64_t> StorageExtent(const StoredTensor& tensor, int64_t offset,
                                     size_t element_size) {
  int64_t last = offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  int64_t extent = 0;
  if (__builtin_add_overflow(last, 1, &extent) ||
      __builtin_mul_overflow(extent, static_cast<int64_t>(element_size),
                             &extent)) {
    return std::nullopt;
  }
  return extent;
}

// torch computes element counts in int64 without checks of its own.
bool CountOverflows(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return true;
  }
  return false;
}

absl::StatusOr<StoredTensor> ReadTensor(const json& meta,
                                        std::string_view bytes) {
  const auto bad = [](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat(text...));
  };
  const json* type = Find(meta, "dtype");
  if (type == nullptr || !type->is_number_integer()) return bad("has no dtype");
  const size_t element_size = ElementSize(type->get<int>());
  if (element_size == 0) {
    return bad("has dtype ", type->dump(), ", which is not supported");
  }
  const json* layout = Find(meta, "layout");
  if (layout == nullptr || *layout != kStridedLayout) {
    return bad("is not a dense strided tensor");
  }
  const json* device = Find(meta, "device");
  const json* device_type = device == nullptr ? nullptr : Find(*device, "type");
  if (device_type == nullptr ||
      (*device_type != "cpu" && *device_type != "cuda")) {
    return bad("is stored for device ",
               device_type == nullptr ? "null" : device_type->dump(),
               ", expected \"cpu\" or \"cuda\"");
  }

  StoredTensor tensor;
  tensor.type = static_cast<StoredType>(type->get<int>());
  auto sizes = AsSizes(Find(meta, "sizes"));
  auto strides = AsSizes(Find(meta, "strides"));
  const auto offset = AsSize(Find(meta, "storage_offset"));
  if (!sizes || !strides || !offset || sizes->size() != strides->size() ||
      CountOverflows(*sizes)) {
    return bad("has malformed sizes, strides or storage_offset");
  }
  tensor.sizes = *std::move(sizes);
  tensor.strides = *std::move(strides);
  const auto extent = StorageExtent(tensor, *offset, element_size);
  if (!extent || static_cast<uint64_t>(*extent) > bytes.size()) {
    return bad("reaches beyond its payload of ", bytes.size(), " bytes");
  }
  // An empty tensor may start anywhere; keep its pointer inside the payload.
  const size_t start = *extent == 0 ? 0 : *offset * element_size;
  tensor.data = reinterpret_cast<const std::byte*>(bytes.data()) + start;
  const size_t alignment = element_size > 8 ? 8 : element_size;
  if (reinterpret_cast<uintptr_t>(tensor.data) % alignment != 0) {
    return bad("is not aligned to its element size in the archive");
  }
  return tensor;
}

// Whether any value of the graph is on a GPU.
bool HasGpuValues(const json& program) {
  const json* module = Find(program, "graph_module");
  const json* graph = module == nullptr ? nullptr : Find(*module, "graph");
  const json* values =
      graph == nullptr ? nullptr : Find(*graph, "tensor_values");
  if (values == nullptr || !values->is_object()) return false;
  for (const json& value : *values) {
    const json* device = Find(value, "device");
    const json* type = device == nullptr ? nullptr : Find(*device, "type");
    if (type != nullptr && *type == "cuda") return true;
  }
  return false;
}

}  // namespace

ProgramArchive::ProgramArchive(std::shared_ptr<const ZipArchive> zip)
    : zip_(std::move(zip)) {}

absl::StatusOr<std::shared_ptr<const ProgramArchive>> ProgramArchive::Open(
    const std::string& pt2_path) {
  ASSIGN_OR_RETURN(auto zip, ZipArchive::Open(pt2_path));
  std::shared_ptr<ProgramArchive> archive(new ProgramArchive(std::move(zip)));
  absl::Status status = archive->ReadProgram();
  if (status.ok()) status = archive->ReadPayloads("weights");
  if (status.ok()) status = archive->ReadPayloads("constants");
  if (status.ok()) {
    status = CheckProgram(archive->program(), archive->tensors());
  }
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(pt2_path, ": ", status.message()));
  }
  archive->exported_on_gpu_ = HasGpuValues(archive->program());
  return archive;
}

absl::Status ProgramArchive::CheckRunsOnCpu() const {
  if (!exported_on_gpu_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(zip_->path(),
                   ": was exported on a GPU, expected one that was exported "
                   "on the CPU; or say 'device: cuda:0' in model.yaml"));
}

absl::Status ProgramArchive::ReadProgram() {
  for (const auto& [name, member] : zip_->members()) {
    absl::string_view rest = name;
    const size_t slash = rest.find('/');
    if (slash == absl::string_view::npos) continue;
    const absl::string_view root = rest.substr(0, slash + 1);
    rest.remove_prefix(root.size());
    if (!absl::ConsumePrefix(&rest, "models/") ||
        !absl::ConsumeSuffix(&rest, ".json") || rest.empty() ||
        absl::StrContains(rest, "/")) {
      continue;
    }
    if (!model_name_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected one program, found models/", model_name_,
                       ".json and models/", rest, ".json"));
    }
    root_ = std::string(root);
    model_name_ = std::string(rest);
  }
  if (model_name_.empty()) {
    return absl::InvalidArgumentError(
        "expected models/<name>.json, as torch.export.save writes it, found "
        "none");
  }
  ASSIGN_OR_RETURN(
      const std::string_view text,
      zip_->ReadChecked(absl::StrCat(root_, "models/", model_name_, ".json"),
                        kMaxProgramBytes));
  program_ = std::make_shared<const json>(json::parse(text, nullptr, false));
  return absl::OkStatus();
}

absl::Status ProgramArchive::ReadPayloads(const std::string& folder) {
  const std::string place = absl::StrCat(root_, "data/", folder, "/");
  const std::string config_name =
      absl::StrCat(place, model_name_, "_", folder, "_config.json");
  auto text = zip_->ReadChecked(config_name, kMaxConfigBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(text.status().message());
  }
  const json document = json::parse(*text, nullptr, false);
  const json* config = Find(document, "config");
  if (config == nullptr || !config->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        config_name, ": expected {\"config\": {...}}, found other text"));
  }
  for (const auto& [name, entry] : config->items()) {
    auto tensor = ReadEntry(place, entry);
    if (tensor.ok() && tensors_.contains(name)) {
      tensor = absl::InvalidArgumentError("is both a weight and a constant");
    }
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder, " tensor '", name, "' ", tensor.status().message()));
    }
    tensors_.emplace(name, *std::move(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTensor> ProgramArchive::ReadEntry(
    const std::string& place, const json& entry) const {
  const json* pickled = Find(entry, "use_pickle");
  if (pickled == nullptr || !pickled->is_boolean() || pickled->get<bool>()) {
    return absl::InvalidArgumentError(
        "is pickled; pickled payloads are refused");
  }
  const json* path_name = Find(entry, "path_name");
  const json* meta = Find(entry, "tensor_meta");
  if (path_name == nullptr || !path_name->is_string() || meta == nullptr) {
    return absl::InvalidArgumentError("has no path_name or no tensor_meta");
  }
  ASSIGN_OR_RETURN(
      const std::string_view bytes,
      zip_->View(place + path_name->get_ref<const std::string&>()));
  ASSIGN_OR_RETURN(StoredTensor tensor, ReadTensor(*meta, bytes));
  const json* is_param = Find(entry, "is_param");
  tensor.is_parameter =
      is_param != nullptr && is_param->is_boolean() && is_param->get<bool>();
  return tensor;
}

}  // namespace stoker
