// JSON from and to text. The library's parser and writer are templates: here
// they are compiled once for the whole server.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// What the text says; `is_discarded()`, and so of no type, when it isn't JSON.
nlohmann::json ReadJson(std::string_view text);

struct JsonStyle {
  int indent = -1;     // spaces a level; below zero: all on one line
  bool ascii = false;  // other characters as \u escapes
};

// Bytes that aren't UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::json& json, JsonStyle style = {});

}  // namespace stoker
