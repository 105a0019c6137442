// Values in the text of a YAML. Private to this room.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stoker {

// Where a name is no plain word it is quoted, as in JSON, which is YAML.
std::string YamlName(const std::string& name);
// The same of what should be a number, true or false.
std::string YamlNumber(const std::string& text);

template <typename Numbers>
std::string YamlList(const Numbers& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

}  // namespace stoker
