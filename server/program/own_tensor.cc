#include "program/own_tensor.h"

#include <utility>

#include "base/json_field.h"

namespace stoker {

std::optional<OwnTensor> ReadOwnTensor(const nlohmann::json& input_spec) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"parameter", "parameter_name"},
      {"buffer", "buffer_name"},
      {"tensor_constant", "tensor_constant_name"}};
  for (const auto& [kind, name_key] : kKinds) {
    const nlohmann::json& own = Field(input_spec, kind);
    if (own.is_null()) continue;
    return OwnTensor{TextField(Field(own, "arg"), "name"),
                     TextField(own, name_key)};
  }
  return std::nullopt;
}

}  // namespace stoker
