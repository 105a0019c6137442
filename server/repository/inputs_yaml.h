// `inputs:` and `outputs:` of a model.yaml: what the program doesn't say of
// them. Private to this room.
#pragma once

#include <vector>

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// Fills pad_value and range of the inputs that `value` names, and gives them
// the names that clients know them by; notes mistakes in its errors. Last of
// all that finds an input by its name.
void ReadInputs(const YamlValue& value, std::vector<InputSpec>& inputs);
// The names that clients know the outputs by, the same.
void ReadOutputs(const YamlValue& value, std::vector<OutputSpec>& outputs);

}  // namespace stoker
