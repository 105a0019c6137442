#include "repository/program_digest.h"

#include <map>
#include <utility>

#include "base/sha256.h"

namespace stoker {
namespace {

using nlohmann::json;

// Removes what differs between exports of the same program. Objects are told
// apart by members that only they have, because tensors' names are keys of some
// objects and may well be "metadata" or "hint".
void RemoveNoise(json& value) {
  if (value.is_object()) {
    const auto has_string = [&value](const char* key) {
      const auto it = value.find(key);
      return it != value.end() && it->is_string();
    };
    if (has_string("target")) value.erase("metadata");  // a node
    if (has_string("expr_str")) value.erase("hint");    // a symbolic size
  }
  if (value.is_structured()) {
    for (json& child : value) RemoveNoise(child);
  }
}

json Describe(const Payload& payload) {
  json constants = json::array();
  // Tied tensors make other code than equal ones, so each names the first
  // tensor that it shares its storage with.
  std::map<std::string, std::string> first_of_member;
  for (const PayloadTensor& tensor : payload.tensors) {
    const auto first =
        first_of_member.try_emplace(tensor.member, tensor.name).first;
    constants.push_back({{"name", tensor.name},
                         {"dtype", tensor.dtype},
                         {"sizes", tensor.sizes},
                         {"strides", tensor.strides},
                         {"offset", tensor.offset},
                         {"device", tensor.device},
                         {"storage", first->second}});
  }
  return constants;
}

}  // namespace

std::string ProgramDigest(json& program, const ModelSpec& spec,
                          const Payload& payload) {
  json& module = program["graph_module"];
  json canonical = {
      {"graph", std::move(module["graph"])},
      {"signature", std::move(module["signature"])},
      {"range_constraints", std::move(program["range_constraints"])},
      {"opset_version", std::move(program["opset_version"])},
      {"constants", Describe(payload)}};
  for (const InputSpec& input : spec.inputs) {
    canonical["inputs"].push_back(input.name);
  }
  for (const OutputSpec& output : spec.outputs) {
    canonical["outputs"].push_back(output.name);
  }
  RemoveNoise(canonical);
  return Sha256Hex(
      canonical.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace stoker
