// `inputs:` of a model.yaml: what the program doesn't say of its inputs.
// Private to this room.
#pragma once

#include <vector>

#include "repository/model_spec.h"
#include "repository/yaml_value.h"

namespace stoker {

// Fills pad_value and range of the inputs that `value` names; notes mistakes in
// its errors.
void ReadInputs(const YamlValue& value, std::vector<InputSpec>& inputs);

}  // namespace stoker
