// `versions:` of a model.yaml.
#pragma once

#include <cstdint>
#include <vector>

#include "repository/yaml_value.h"

namespace stoker {

struct VersionChoice {
  bool all = false;
  std::vector<int64_t> listed;  // empty and not `all`: the newest
};

// Notes mistakes in the value's errors.
VersionChoice ReadVersions(const YamlValue& value);

}  // namespace stoker
