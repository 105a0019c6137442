// Values may come and go in containers of any class that Python knows: named
// tuples, dataclasses, transformers' ModelOutput. Nobody here makes objects of
// them, and nativert knows tuples, lists and dictionaries only, so every other
// becomes one of these. The compiler's reader does likewise
// (compiler/program/containers.py). Pure; private to this room.
#pragma once

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Has the program's tree specs say "a dictionary" for containers whose fields
// have names, and "a tuple" for others; returns whether there were any.
// `program` is a model.json that ParseJson took; what isn't a tree spec stays
// as it is, for its reader to refuse (program/leaf_names.h).
bool UsePlainContainers(nlohmann::json& program);

}  // namespace stoker
