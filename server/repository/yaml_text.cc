#include "repository/yaml_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "base/json_text.h"

namespace stoker {

std::string YamlName(const std::string& name) {
  const bool plain = !name.empty() && absl::ascii_isalpha(name[0]) &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '.';
                     });
  static const auto* const words = new std::set<std::string>{
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  return plain && !words->contains(absl::AsciiStrToLower(name))
             ? name
             : JsonText(name);
}

std::string YamlNumber(const std::string& text) {
  const bool plain = !text.empty() &&
                     text.find_first_not_of("0123456789+-.einfa") == text.npos;
  return plain || text == "true" || text == "false" ? text : JsonText(text);
}

}  // namespace stoker
