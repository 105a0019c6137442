// `inputs:` of a model.yaml: what the program doesn't say of its inputs.
// Private to this room.
#pragma once

#include <vector>

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// Fills pad_value and range of the inputs that `value` names; notes mistakes in
// its errors.
void ReadInputs(const YamlValue& value, std::vector<InputSpec>& inputs);

}  // namespace stoker
