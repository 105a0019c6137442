// Reads JSON of unknown shape without exceptions.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace stoker {

// The field, or null when `json` is no object or has none of that name. Views
// `json`.
inline const nlohmann::json& Field(const nlohmann::json& json,
                                   const char* name) {
  static const nlohmann::json& nothing = *new nlohmann::json;
  if (!json.is_object()) return nothing;
  const auto it = json.find(name);
  return it == json.end() ? nothing : *it;
}

// The field's text; empty when it is none.
inline std::string TextField(const nlohmann::json& json, const char* name) {
  const nlohmann::json& field = Field(json, name);
  return field.is_string() ? field.get<std::string>() : "";
}

}  // namespace stoker
