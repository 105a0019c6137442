#include "base/json_text.h"

#include "nlohmann/json.hpp"

namespace stoker {

nlohmann::json ReadJson(std::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr,
                               /*allow_exceptions=*/false);
}

std::string JsonText(const nlohmann::json& json, JsonStyle style) {
  return json.dump(style.indent, ' ', style.ascii,
                   nlohmann::json::error_handler_t::replace);
}

}  // namespace stoker
