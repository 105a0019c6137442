#include "runner/device_program.h"

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "base/json_field.h"
#include "nlohmann/json.hpp"
#include "runner/registered_operator.h"

namespace stoker {
namespace {

using nlohmann::json;

bool IsDevice(const json& value) {
  if (!value.is_object() || value.size() != 2) return false;
  const auto type = value.find("type");
  const auto index = value.find("index");
  return type != value.end() && index != value.end() && type->is_string() &&
         (*type == "cpu" || *type == "cuda") &&
         (index->is_null() || index->is_number_integer());
}

json DeviceArgument(const Device& device) {
  return {{"as_device",
           {{"type", device.is_gpu() ? "cuda" : "cpu"},
            {"index", device.is_gpu() ? json(device.index) : json(nullptr)}}}};
}

// Whether `value`, an argument as it is serialised, holds tensors.
bool HoldsTensors(const json& value) {
  if (!value.is_object()) return false;
  for (const auto& [kind, inner] : value.items()) {
    if (absl::StartsWith(kind, "as_tensor") ||
        absl::StartsWith(kind, "as_optional_tensor")) {
      return true;
    }
  }
  return false;
}

void PlaceFactory(json& node, const Device& device) {
  const auto op = FindOperator(TextField(node, "target"));
  if (!op || !op->hasSchema() ||
      !op->schema().argumentIndexWithName("device")) {
    return;
  }
  json* named = nullptr;
  for (json& input : node["inputs"]) {
    const json& value = Field(input, "arg");
    if (HoldsTensors(value)) return;  // it is made where they are
    if (TextField(input, "name") == "device") named = &input;
  }
  if (named == nullptr) {
    constexpr int kKeyword = 2;
    node["inputs"].push_back({{"name", "device"},
                              {"arg", DeviceArgument(device)},
                              {"kind", kKeyword}});
  } else if (Field((*named)["arg"], "as_device").is_null()) {
    (*named)["arg"] = DeviceArgument(device);
  }
}

// Calls `visit` with all that is an object or array, itself included. A list of
// its own: the text is untrusted and may be nested more deeply than a stack.
// False from `visit`: what is inside it is left out.
void VisitAll(json& value, absl::FunctionRef<bool(json&)> visit) {
  std::vector<json*> open = {&value};
  while (!open.empty()) {
    json& next = *open.back();
    open.pop_back();
    if (!next.is_structured() || !visit(next)) continue;
    for (json& child : next) {
      if (child.is_structured()) open.push_back(&child);
    }
  }
}

}  // namespace

void MoveDevices(json& value, const Device& device) {
  VisitAll(value, [&](json& next) {
    if (!IsDevice(next)) return true;
    next = DeviceArgument(device)["as_device"];
    return false;
  });
}

void PlaceFactories(json& program, const Device& device) {
  VisitAll(program, [&](json& next) {
    if (Field(next, "target").is_string() && Field(next, "inputs").is_array()) {
      PlaceFactory(next, device);
    }
    return true;
  });
}

}  // namespace stoker
