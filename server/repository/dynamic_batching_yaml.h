// The dynamic_batching block of model.yaml, with the field names of Triton's
// ModelDynamicBatching.
#pragma once

#include <cstdint>

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// Mistakes are noted in the value's errors. `max_batch_size` 0: the model has
// no batch dimension.
void ReadDynamicBatching(const YamlValue& value, int64_t max_batch_size,
                         DynamicBatchingSpec& spec);

}  // namespace stoker
