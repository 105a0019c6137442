// A program's graph for another device than it was exported on: torch 2.11's
// nativert runs every operator where the graph says, and has no way to say
// otherwise. Private to this room.
#pragma once

#include "nlohmann/json_fwd.hpp"
#include "tensor/device.h"

namespace stoker {

// Every device in the JSON, {"type": "cpu" or "cuda", "index": ...}, becomes
// `device`, the processor or a GPU by index: of values, of the operators'
// arguments, of stored tensors.
void MoveDevices(nlohmann::json& value, const Device& device);

// Operators that make a tensor from none, on the processor unless told
// otherwise (arange, zeros, full), are told `device` where they name none. As
// compiler/specialise/moved.py does for compiled code.
void PlaceFactories(nlohmann::json& program, const Device& device);

}  // namespace stoker
