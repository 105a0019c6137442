// The compile block of model.yaml: whether a model is compiled, and how.
#pragma once

#include <string>

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// `compile: false`, or a map of levers. Mistakes are noted in the value's
// errors. `folder`: where a file with passes is looked for, which is read for
// its digest.
void ReadCompile(const YamlValue& value, const std::string& folder, bool on_gpu,
                 CompileSpec& spec);

}  // namespace stoker
