// `inputs:` and `outputs:` of a model.yaml: what the program doesn't say of
// them. Private to this room.
#pragma once

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// Fills what `value` says of the inputs that it names, and gives them the names
// that clients know them by; notes mistakes in its errors. Last of all that
// finds an input by its name, and once it is known whether there is a batch.
void ReadInputs(const YamlValue& value, ModelSpec& spec);
// Of the outputs, the same.
void ReadOutputs(const YamlValue& value, ModelSpec& spec);

}  // namespace stoker
