// `versions:` of a model.yaml.
#pragma once

#include <cstdint>
#include <vector>

#include "base/yaml_value.h"

namespace stoker {

struct VersionChoice {
  bool all = false;
  int64_t latest = 1;           // so many of the newest, unless the others say
  std::vector<int64_t> listed;  // not empty: these
};

// Notes mistakes in the value's errors.
VersionChoice ReadVersions(const YamlValue& value);

}  // namespace stoker
