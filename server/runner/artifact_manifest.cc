#include "runner/artifact_manifest.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "program/scalar_type.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;
constexpr int kMaxBit = 62;
constexpr int kMaxOutputs = 1 << 20;

absl::Status Malformed(absl::string_view field, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("manifest: field '", field, "': expected ", expected));
}

absl::StatusOr<std::string> Text(const json& object, const char* key) {
  const json& value = Field(object, key);
  if (!value.is_string()) return Malformed(key, "a string");
  return value.get<std::string>();
}

absl::StatusOr<int> Number(const json& object, const char* key, int min,
                           int max) {
  const json& value = Field(object, key);
  if (!value.is_number_integer() || value.get<int64_t>() < min ||
      value.get<int64_t>() > max) {
    return Malformed(key, absl::StrCat("an integer of ", min, " to ", max));
  }
  return value.get<int>();
}

absl::StatusOr<DataType> TorchType(const json& object, const char* key) {
  ASSIGN_OR_RETURN(const std::string name, Text(object, key));
  const std::optional<DataType> dtype = DataTypeOfTorchName(name);
  if (!dtype) return Malformed(key, absl::StrCat("no dtype ", name));
  return *dtype;
}

absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> ParseRange(
    const json& entry, size_t dimensions) {
  const json& range = Field(entry, "range");
  if (!range.is_array() || range.size() != dimensions) {
    return Malformed("inputs", "a range for each dimension");
  }
  std::vector<std::pair<int64_t, int64_t>> limits;
  for (const json& limit : range) {
    if (!limit.is_array() || limit.size() != 2 ||
        !limit[0].is_number_integer() || !limit[1].is_number_integer() ||
        limit[0].get<int64_t>() < 0 || limit[1] < limit[0]) {
      return Malformed("inputs", "ranges of two sizes, the lower one first");
    }
    limits.emplace_back(limit[0].get<int64_t>(), limit[1].get<int64_t>());
  }
  return limits;
}

absl::StatusOr<ArtifactInput> ParseInput(const json& entry) {
  ArtifactInput input;
  ASSIGN_OR_RETURN(input.name, Text(entry, "name"));
  ASSIGN_OR_RETURN(input.dtype, TorchType(entry, "dtype"));
  const json& shape = Field(entry, "shape");
  if (!shape.is_array()) return Malformed("inputs", "a shape for each");
  for (const json& size : shape) {
    if (!size.is_number_integer() || size.get<int64_t>() < -1) {
      return Malformed("inputs", "sizes of -1 or more");
    }
    input.shape.push_back(size.get<int64_t>());
  }
  if (absl::c_linear_search(input.shape, -1)) {
    ASSIGN_OR_RETURN(input.range, ParseRange(entry, input.shape.size()));
  }
  return input;
}

absl::StatusOr<ArtifactGuard> ParseGuard(const json& entry) {
  ArtifactGuard guard;
  ASSIGN_OR_RETURN(guard.bit, Number(entry, "bit", 0, kMaxBit));
  ASSIGN_OR_RETURN(const std::string message, Text(entry, "message"));
  ASSIGN_OR_RETURN(const std::string op, Text(entry, "operator"));
  const json& input = Field(entry, "input");
  if (input.is_string()) {
    absl::StrAppend(&guard.text, input.get_ref<const std::string&>(), ": ");
  }
  absl::StrAppend(&guard.text, message, " (", op, ")");
  return guard;
}

absl::StatusOr<std::set<std::string>> Names(const json& document,
                                            const char* field) {
  const json& list = Field(document, field);
  if (!list.is_array()) return Malformed(field, "a list");
  std::set<std::string> names;
  for (const json& name : list) {
    if (!name.is_string()) return Malformed(field, "strings");
    names.insert(name.get<std::string>());
  }
  return names;
}

// From the factors of its key.
std::map<std::string, std::string> OperatorLibraries(const json& document) {
  std::map<std::string, std::string> libraries;
  const json& factors = Field(document, "factors");
  if (!factors.is_object()) return libraries;
  for (const auto& [name, digest] : factors.items()) {
    absl::string_view library = name;
    if (absl::ConsumePrefix(&library, "operators.")) {
      libraries.emplace(library,
                        digest.is_string() ? digest.get<std::string>() : "");
    }
  }
  return libraries;
}

// The fields that only an artifact for a GPU has.
absl::Status ReadGpu(const json& document, ArtifactManifest& manifest) {
  const json& device = Field(document, "device");
  if (device.is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(manifest.device, Text(document, "device"));
  if (manifest.device == "cpu") return absl::OkStatus();
  if (manifest.device != "cuda") return Malformed("device", "cpu or cuda");
  ASSIGN_OR_RETURN(manifest.gpu_arch,
                   Text(Field(document, "factors"), "cuda.arch"));
  manifest.tf32 = Field(Field(document, "factors"), "precision") == "tf32";
  const json& capturable = Field(document, "capturable");
  if (!capturable.is_boolean()) return Malformed("capturable", "a boolean");
  if (capturable.get<bool>()) return absl::OkStatus();
  ASSIGN_OR_RETURN(manifest.not_capturable, Text(document, "not_capturable"));
  if (manifest.not_capturable.empty()) {
    return Malformed("not_capturable", "a reason");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArtifactManifest> ParseArtifactManifest(std::string_view text) {
  const json document = ReadJson(text);
  if (!document.is_object()) {
    return absl::InvalidArgumentError("manifest: expected a JSON object");
  }
  ArtifactManifest manifest;
  RETURN_IF_ERROR(Number(document, "schema", kSchema, kSchema).status());
  ASSIGN_OR_RETURN(manifest.bucket, Text(document, "bucket"));
  const json& toolchain = Field(document, "toolchain");
  ASSIGN_OR_RETURN(manifest.torch, Text(toolchain, "torch"));
  ASSIGN_OR_RETURN(manifest.march, Text(toolchain, "march"));

  manifest.operator_libraries = OperatorLibraries(document);
  const json& inputs = Field(document, "inputs");
  if (!inputs.is_array()) return Malformed("inputs", "a list");
  for (const json& entry : inputs) {
    ASSIGN_OR_RETURN(ArtifactInput input, ParseInput(entry));
    manifest.inputs.push_back(std::move(input));
  }
  ASSIGN_OR_RETURN(manifest.outputs,
                   Number(document, "outputs", 0, kMaxOutputs));
  const auto validity = document.find("validity_output");
  if (validity == document.end() || !validity->is_null()) {
    ASSIGN_OR_RETURN(manifest.validity_output,
                     Number(document, "validity_output", 0, manifest.outputs));
  }
  const json& guards = Field(document, "guards");
  if (!guards.is_array()) return Malformed("guards", "a list");
  for (const json& entry : guards) {
    ASSIGN_OR_RETURN(ArtifactGuard guard, ParseGuard(entry));
    manifest.guards.push_back(std::move(guard));
  }
  const json& constants = Field(document, "constants");
  if (!constants.is_array()) return Malformed("constants", "a list");
  for (const json& name : constants) {
    if (!name.is_string()) return Malformed("constants", "strings");
    manifest.constants.push_back(name.get<std::string>());
  }
  RETURN_IF_ERROR(ReadGpu(document, manifest));
  ASSIGN_OR_RETURN(manifest.packed, Names(document, "packed"));
  ASSIGN_OR_RETURN(manifest.packed_as, TorchType(document, "packed_as"));
  const json& convolutions = Field(document, "convolutions");
  if (!convolutions.is_array()) return Malformed("convolutions", "a list");
  for (const json& entry : convolutions) {
    ASSIGN_OR_RETURN(std::string weight, Text(entry, "weight"));
    manifest.convolutions.insert(std::move(weight));
  }
  return manifest;
}

std::vector<RowFault> DecodeValidity(absl::Span<const int64_t> validity,
                                     absl::Span<const ArtifactGuard> guards) {
  std::vector<RowFault> faults;
  for (size_t row = 0; row < validity.size(); ++row) {
    if (validity[row] == 0) continue;
    RowFault fault;
    fault.row = validity.size() == 1 ? -1 : static_cast<int64_t>(row);
    for (const ArtifactGuard& guard : guards) {
      if ((static_cast<uint64_t>(validity[row]) >> guard.bit & 1) == 0)
        continue;
      absl::StrAppend(&fault.message, fault.message.empty() ? "" : "; ",
                      guard.text);
    }
    if (fault.message.empty()) {
      fault.message = absl::StrCat("refused by the compiled program (bits ",
                                   validity[row], ")");
    }
    faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace stoker
