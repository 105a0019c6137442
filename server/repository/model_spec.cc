#include "repository/model_spec.h"

#include "absl/strings/str_cat.h"

namespace stoker {

std::string ModelSpec::Label() const {
  return absl::StrCat(name, ":", version);
}

std::vector<std::string> ModelSpec::DimensionNames() const {
  std::vector<std::string> names;
  names.reserve(dimensions.size());
  for (const DimensionSpec& dimension : dimensions) {
    names.push_back(dimension.name);
  }
  return names;
}

}  // namespace stoker
