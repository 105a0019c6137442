#include "program/leaf_names.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "program/limits.h"

namespace stoker {
namespace {

using nlohmann::json;

// One node of a serialised pytree spec:
// {"type": "builtins.dict", "context": "[\"a\"]", "children_spec": [...]}.
struct TreeNode {
  bool is_leaf = false;
  std::string type;
  std::string context;
  std::vector<JsonCursor> children;
};

absl::StatusOr<TreeNode> ReadNode(const JsonCursor& cursor) {
  TreeNode node;
  ASSIGN_OR_RETURN(const std::optional<JsonCursor> type, cursor.Find("type"));
  if (!type) {
    node.is_leaf = true;
    return node;
  }
  ASSIGN_OR_RETURN(node.type, type->String());
  ASSIGN_OR_RETURN(const std::optional<JsonCursor> context,
                   cursor.Find("context"));
  if (context) {
    ASSIGN_OR_RETURN(node.context, context->String());
  }
  ASSIGN_OR_RETURN(const JsonCursor children, cursor.Member("children_spec"));
  ASSIGN_OR_RETURN(node.children, children.Elements());
  return node;
}

// Array elements as names; nullopt unless there are `count` of them, all
// strings or integers.
std::optional<std::vector<std::string>> KeysOf(const json& array,
                                               size_t count) {
  if (!array.is_array() || array.size() != count) return std::nullopt;
  std::vector<std::string> keys;
  for (const json& key : array) {
    if (key.is_string()) {
      keys.push_back(key.get<std::string>());
    } else if (key.is_number_integer()) {
      keys.push_back(JsonText(key));
    } else {
      return std::nullopt;
    }
  }
  return keys;
}

// The names of a node's children; nullopt when they are only numbered.
std::optional<std::vector<std::string>> Keys(const TreeNode& node) {
  if (node.type != "builtins.dict") return std::nullopt;
  const absl::StatusOr<json> context = ParseJson(node.context, "context");
  if (!context.ok()) return std::nullopt;
  return KeysOf(*context, node.children.size());
}

// Appends the names of the leaves below `cursor`. `root` names a lone leaf and
// numbered children at the top.
absl::Status CollectLeafNames(const JsonCursor& cursor,
                              const std::string& prefix,
                              const std::string& root,
                              std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const TreeNode node, ReadNode(cursor));
  if (node.is_leaf) {
    names.push_back(prefix.empty() ? root : prefix);
    return absl::OkStatus();
  }
  const std::optional<std::vector<std::string>> keys = Keys(node);
  const std::string& start = prefix.empty() && !keys ? root : prefix;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::string key = keys ? (*keys)[i] : absl::StrCat(i);
    const std::string name =
        start.empty() ? key : absl::StrCat(start, "_", key);
    RETURN_IF_ERROR(CollectLeafNames(node.children[i], name, root, names));
  }
  return absl::OkStatus();
}

// The tree inside a spec's text: [1, {...}], 1 being the protocol. `parsed`
// keeps it.
absl::StatusOr<JsonCursor> ParseTree(const JsonCursor& signature,
                                     std::string_view key, json& parsed) {
  ASSIGN_OR_RETURN(const JsonCursor member, signature.Member(key));
  ASSIGN_OR_RETURN(const std::string text, member.String());
  ASSIGN_OR_RETURN(parsed, ParseJson(text, key));
  const JsonCursor root(parsed, std::string(key));
  ASSIGN_OR_RETURN(const std::vector<JsonCursor> parts, root.Elements());
  if (parts.size() != 2 || parts[0].value() != 1) {
    return root.Error("a tree spec of protocol 1");
  }
  return parts[1];
}

absl::StatusOr<std::vector<std::string>> ForwardArguments(
    const JsonCursor& signature) {
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(const std::optional<JsonCursor> list,
                   signature.Find("forward_arg_names"));
  if (!list) return names;
  ASSIGN_OR_RETURN(const std::vector<JsonCursor> elements, list->Elements());
  for (const JsonCursor& element : elements) {
    ASSIGN_OR_RETURN(std::string name, element.String());
    names.push_back(std::move(name));
  }
  return names;
}

// The tree is (positional arguments, {keyword: argument}).
absl::StatusOr<std::vector<std::string>> InputNames(
    const JsonCursor& signature, const std::vector<std::string>& placeholders) {
  ASSIGN_OR_RETURN(const std::vector<std::string> arguments,
                   ForwardArguments(signature));
  json parsed;
  ASSIGN_OR_RETURN(const JsonCursor tree,
                   ParseTree(signature, "in_spec", parsed));
  ASSIGN_OR_RETURN(const TreeNode root, ReadNode(tree));
  if (root.children.size() != 2) {
    return tree.Error("positional and keyword arguments");
  }
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(const TreeNode positional, ReadNode(root.children[0]));
  for (size_t i = 0; i < positional.children.size(); ++i) {
    const size_t first = names.size();
    const bool known = i < arguments.size();
    RETURN_IF_ERROR(CollectLeafNames(
        positional.children[i], known ? arguments[i] : "", "input", names));
    for (size_t n = first; !known && n < names.size(); ++n) {
      if (n < placeholders.size()) names[n] = placeholders[n];
    }
  }
  RETURN_IF_ERROR(CollectLeafNames(root.children[1], "", "input", names));
  return names;
}

absl::Status CheckNames(const JsonCursor& where,
                        std::vector<std::string>& names) {
  if (names.size() > kMaxLeaves) {
    return where.Error(
        absl::StrCat("at most ", kMaxLeaves, " inputs and outputs each"));
  }
  std::set<std::string> seen;
  for (std::string& name : names) {
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    });
    if (name.empty() || name.size() > kMaxLeafNameBytes || !printable) {
      return where.Error(absl::StrCat("names of 1 to ", kMaxLeafNameBytes,
                                      " printable characters"));
    }
    // {"a": [x], "a_0": y} gives a_0 twice; the later one gives way.
    const std::string base = name;
    for (int n = 2; !seen.insert(name).second; ++n) {
      name = absl::StrCat(base, "_", n);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LeafNames> ReadLeafNames(
    const JsonCursor& graph_module,
    const std::vector<std::string>& placeholders) {
  ASSIGN_OR_RETURN(const JsonCursor calls,
                   graph_module.Member("module_call_graph"));
  ASSIGN_OR_RETURN(const std::vector<JsonCursor> entries, calls.Elements());
  if (entries.empty()) return calls.Error("an entry for the whole module");
  ASSIGN_OR_RETURN(const JsonCursor signature, entries[0].Member("signature"));

  LeafNames names;
  ASSIGN_OR_RETURN(names.inputs, InputNames(signature, placeholders));
  json parsed;
  ASSIGN_OR_RETURN(const JsonCursor tree,
                   ParseTree(signature, "out_spec", parsed));
  RETURN_IF_ERROR(CollectLeafNames(tree, "", "output", names.outputs));
  RETURN_IF_ERROR(CheckNames(signature, names.inputs));
  RETURN_IF_ERROR(CheckNames(signature, names.outputs));
  return names;
}

}  // namespace stoker
