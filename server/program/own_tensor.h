// A tensor that a program brings along, as its signature lists it among the
// inputs of its graph. Pure.
#pragma once

#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace stoker {

struct OwnTensor {
  std::string value;  // of the graph, which shows it
  std::string name;   // qualified: "encoder.layer.0.weight"
};

// Of one of a signature's input_specs: the parameter, buffer or lifted constant
// that it is, with empty texts where it doesn't say; nullopt of any other.
std::optional<OwnTensor> ReadOwnTensor(const nlohmann::json& input_spec);

}  // namespace stoker
