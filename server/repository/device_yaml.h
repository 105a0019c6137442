// Where a model runs, by its model.yaml: `device`, `graphs`, `cpus` and
// `numa_node`. Private to this room.
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

}  // namespace stoker
