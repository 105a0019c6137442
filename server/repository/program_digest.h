// The identity of a program's computation: equal for two exports of one model
// in two processes and folders, different whenever generated code could differ.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "repository/model_spec.h"
#include "repository/payload.h"

namespace stoker {

// SHA-256 over canonical JSON (sorted members, no white space) of the graph,
// its signature, range constraints and opset, the names of inputs and outputs,
// and name, dtype, sizes, strides, offset, device and sharing of every weight
// and constant. Left out: the weights' values and members' names, nodes'
// metadata (stack traces hold paths), the sizes of the sample inputs (hints),
// torch's version (it belongs to the toolchain, not to the program).
//
// `program`: the parsed model.json, whose checked parts are moved out of it.
std::string ProgramDigest(nlohmann::json& program, const ModelSpec& spec,
                          const Payload& payload);

}  // namespace stoker
