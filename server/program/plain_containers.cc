#include "program/plain_containers.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "program/json_cursor.h"

namespace stoker {
namespace {

using nlohmann::json;

bool IsPlain(const json& type) {
  return type == "builtins.tuple" || type == "builtins.list" ||
         type == "builtins.dict";
}

// As many names as there are children, or null.
json NamesIn(const json& array, size_t children) {
  if (!array.is_array() || array.size() != children) return nullptr;
  for (const json& name : array) {
    if (!name.is_string()) return nullptr;
  }
  return array;
}

// What torch keeps of a container besides its values: JSON in a text, or, of a
// defaultdict, JSON.
json ContextOf(const json& node) {
  const json& context = Field(node, "context");
  if (!context.is_string()) return context;
  return ParseJson(context.get_ref<const std::string&>(), "context")
      .value_or(nullptr);
}

// Of the container's fields; null where they have none, or none that is known.
json FieldNames(const json& node, const json& named_tuples) {
  const size_t children = node["children_spec"].size();
  if (node["type"] == "collections.namedtuple") {
    const std::string type = TextField(node, "context");
    return NamesIn(Field(Field(named_tuples, type.c_str()), "field_names"),
                   children);
  }
  const json context = ContextOf(node);
  json names = NamesIn(context, children);  // OrderedDict, ModelOutput
  if (names.is_null()) {
    names = NamesIn(Field(context, "dict_context"), children);  // defaultdict
  }
  if (names.is_null() && context.is_array() && !context.empty()) {
    names = NamesIn(context[0], children);  // dataclass: [fields, None ones]
  }
  return names;
}

// `node` and all below it. The depth is bounded as that of any JSON that is
// read.
bool MakePlain(json& node, const json& named_tuples) {
  if (!Field(node, "children_spec").is_array()) return false;
  bool changed = false;
  if (Field(node, "type").is_string() && !IsPlain(node["type"])) {
    const json names = FieldNames(node, named_tuples);
    node["type"] = names.is_null() ? "builtins.tuple" : "builtins.dict";
    node["context"] = JsonText(names, {.ascii = true});
    changed = true;
  }
  for (json& child : node["children_spec"]) {
    changed |= MakePlain(child, named_tuples);
  }
  return changed;
}

// A spec is a text: [protocol, root].
bool MakePlainSpec(json& signature, const char* key, const json& named_tuples) {
  if (!Field(signature, key).is_string()) return false;
  json& text = signature[key];
  absl::StatusOr<json> spec =
      ParseJson(text.get_ref<const std::string&>(), key);
  if (!spec.ok() || !spec->is_array() || spec->size() != 2 ||
      !MakePlain((*spec)[1], named_tuples)) {
    return false;
  }
  text = JsonText(*spec, {.ascii = true});
  return true;
}

}  // namespace

bool UsePlainContainers(json& program) {
  const json named_tuples =
      Field(Field(program, "graph_module"), "treespec_namedtuple_fields");
  if (!Field(Field(program, "graph_module"), "module_call_graph").is_array()) {
    return false;
  }
  bool changed = false;
  for (json& call : program["graph_module"]["module_call_graph"]) {
    if (!Field(call, "signature").is_object()) continue;
    json& signature = call["signature"];
    changed |= MakePlainSpec(signature, "in_spec", named_tuples);
    changed |= MakePlainSpec(signature, "out_spec", named_tuples);
  }
  return changed;
}

}  // namespace stoker
