// Where a model runs, and beside whom, by its model.yaml: `device`, `graphs`,
// `cpus`, `numa_node`, `weight` and `resources`. Private to this room.
#pragma once

#include "base/yaml_value.h"
#include "repository/model_spec.h"

namespace stoker {

// Each fills its fields of `spec` and notes mistakes in the value's errors.
void ReadDevices(const YamlValue& value, ModelSpec& spec);
void ReadGraphs(const YamlValue& value, ModelSpec& spec);
// After `instances`, each of which may have CPUs of its own.
void ReadCpus(const YamlValue& value, ModelSpec& spec);
// After `cpus`.
void ReadNumaNode(const YamlValue& value, ModelSpec& spec);
void ReadWeight(const YamlValue& value, ModelSpec& spec);
void ReadResources(const YamlValue& value, ModelSpec& spec);

}  // namespace stoker
