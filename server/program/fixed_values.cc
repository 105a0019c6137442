#include "program/fixed_values.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "program/json_cursor.h"

namespace stoker {
namespace {

using nlohmann::json;

bool IsFixedInput(const json& spec) { return spec.contains("constant_input"); }

bool IsNone(const json& spec) {
  return Field(Field(Field(spec, "user_output"), "arg"), "as_none") == true;
}

// Whether it stands for a leaf of the calling convention: weights don't, nor do
// buffers that are written back.
bool IsLeaf(const json& spec) {
  return spec.contains("user_input") || spec.contains("user_output") ||
         IsFixedInput(spec);
}

// Of a call's leaves in flat order, whether each goes.
using Dropped = std::vector<bool>;

// Of `specs` and of `values`, which stand beside them, what goes.
template <typename Goes>
Dropped DropFrom(json& specs, json& values, Goes goes) {
  Dropped dropped;
  json kept_specs = json::array();
  json kept_values = json::array();
  for (size_t i = 0; i < specs.size(); ++i) {
    const bool is_dropped = goes(specs[i]);
    if (IsLeaf(specs[i])) dropped.push_back(is_dropped);
    if (is_dropped) continue;
    kept_specs.push_back(std::move(specs[i]));
    kept_values.push_back(std::move(values[i]));
  }
  specs = std::move(kept_specs);
  values = std::move(kept_values);
  return dropped;
}

// The leaves of `node` from `next` on. The depth is bounded as that of any JSON
// that is read.
void DropLeaves(json& node, const Dropped& dropped, size_t& next) {
  if (!node.is_object()) return;
  if (!Field(node, "type").is_null()) {
    if (!Field(node, "children_spec").is_array()) return;
    for (json& child : node["children_spec"]) DropLeaves(child, dropped, next);
    return;
  }
  const size_t leaf = next++;
  if (leaf >= dropped.size() || !dropped[leaf]) return;
  node["type"] = "builtins.tuple";
  node["context"] = "null";
}

void DropFromTree(json& signature, const char* key, const Dropped& dropped) {
  if (!Field(signature, key).is_string()) return;
  json& text = signature[key];
  absl::StatusOr<json> spec =
      ParseJson(text.get_ref<const std::string&>(), key);
  if (!spec.ok() || !spec->is_array() || spec->size() != 2) return;
  size_t next = 0;
  DropLeaves((*spec)[1], dropped, next);
  text = JsonText(*spec, {.ascii = true});
}

bool Any(const json& specs, bool (*goes)(const json&)) {
  for (const json& spec : specs) {
    if (goes(spec)) return true;
  }
  return false;
}

}  // namespace

bool DropFixedValues(json& program) {
  const json& found = Field(program, "graph_module");
  const json& calls = Field(found, "module_call_graph");
  if (!calls.is_array() || calls.empty() ||
      !Field(calls[0], "signature").is_object()) {
    return false;
  }
  bool changed = false;
  for (const auto& [specs_key, values_key, tree_key, goes] :
       {std::tuple("input_specs", "inputs", "in_spec", &IsFixedInput),
        std::tuple("output_specs", "outputs", "out_spec", &IsNone)}) {
    const json& specs = Field(Field(found, "signature"), specs_key);
    const json& values = Field(Field(found, "graph"), values_key);
    if (!specs.is_array() || !values.is_array() ||
        specs.size() != values.size() || !Any(specs, goes)) {
      continue;
    }
    json& module = program["graph_module"];
    const Dropped dropped = DropFrom(module["signature"][specs_key],
                                     module["graph"][values_key], goes);
    DropFromTree(module["module_call_graph"][0]["signature"], tree_key,
                 dropped);
    changed = true;
  }
  return changed;
}

}  // namespace stoker
