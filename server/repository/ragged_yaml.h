// Requests that are put together end to end, by a model.yaml's `ragged`.
// Private to this room.
#pragma once

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// After the dimensions have their names, before max_batch_size and buckets.
// Notes what the program can't be run with in the value's errors.
void ReadRagged(const YamlValue& value, ModelSpec& spec);

// How many requests the program can take in a ragged batch, at most 1024.
int64_t MostRaggedRequests(const ModelSpec& spec);

}  // namespace stoker
