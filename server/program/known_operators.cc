#include "program/known_operators.h"

#include <algorithm>

namespace stoker {

bool IsKnownOperator(std::string_view name) {
  const auto is_listed = [](std::string_view text) {
    return std::binary_search(kKnownOperators.begin(), kKnownOperators.end(),
                              text);
  };
  if (is_listed(name)) return true;
  return name.ends_with('_') && is_listed(name.substr(0, name.size() - 1));
}

}  // namespace stoker
