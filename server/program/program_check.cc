#include "program/program_check.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_field.h"
#include "base/status_macros.h"
#include "program/known_operators.h"
#include "program/operator_libraries.h"
#include "program/own_tensor.h"
#include "program/source_line.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr int64_t kSchemaMajor = 8;

// What the server has of torchvision's (runner/vision_operators.h), of
// transformers' (runner/grouped_mm.h) and of what torch registers from Python
// (runner/quantised_operators.h).
constexpr absl::string_view kVisionOperators[] = {
    "nms", "roi_align", "ps_roi_align", "deform_conv2d", "_cuda_version"};
constexpr absl::string_view kTransformersOperators[] = {"grouped_mm_fallback"};
constexpr absl::string_view kQuantisedOperators[] = {
    "quantize_per_tensor",
    "dequantize_per_tensor",
    "quantize_per_channel",
    "dequantize_per_channel",
    "quantize_per_token",
    "dequantize_per_token",
    "quantize_per_channel_group",
    "dequantize_per_channel_group",
    "choose_qparams",
    "choose_qparams_symmetric",
    "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric"};
// Operators of theirs that read or write the files that a program names.
constexpr absl::string_view kFileOperators[] = {"from_file", "save", "load"};
// Arithmetic on sizes, which nativert does itself.
constexpr absl::string_view kSizeOperators[] = {"_operator.", "torch.sym_",
                                                "math."};

template <typename List>
bool Contains(const List& list, absl::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool IsOnSizes(absl::string_view target) {
  return absl::c_any_of(kSizeOperators, [target](absl::string_view prefix) {
    return absl::StartsWith(target, prefix);
  });
}

// {"torch", "ops", "aten", "add", "Tensor"}; empty of what is no operator of a
// library.
std::vector<std::string> PartsOf(absl::string_view target) {
  std::vector<std::string> parts = absl::StrSplit(target, '.');
  if (parts.size() < 4 || parts.size() > 5 || parts[0] != "torch" ||
      parts[1] != "ops") {
    parts.clear();
  }
  return parts;
}

bool IsAllowed(const std::vector<std::string>& parts) {
  if (parts.empty()) return false;
  const std::string& library = parts[2];
  const std::string& name = parts[3];
  if (library == "torchvision") return Contains(kVisionOperators, name);
  if (library == "transformers") return Contains(kTransformersOperators, name);
  if (library == "quantized_decomposed") {
    return Contains(kQuantisedOperators, name);
  }
  if (library == "prims") return false;  // torch has them in Python alone
  return IsOwnLibrary(library) ? !Contains(kFileOperators, name)
                               : FindOperatorLibrary(library) != nullptr;
}

// An operator library of somebody's own is vouched for by who names it, and
// what a control-flow operator calls is in graphs of its own.
bool IsListed(const std::vector<std::string>& parts) {
  const std::string& library = parts[2];
  if (library == "aten") return IsKnownOperator(parts[3]);
  return library == "torchvision" || library == "transformers" ||
         library == "quantized_decomposed" || library == "higher_order" ||
         !IsOwnLibrary(library);
}

// What may be done where an operator's library isn't here.
std::string Remedy(const std::vector<std::string>& parts) {
  if (parts.empty() || IsOwnLibrary(parts[2])) return "";
  return absl::StrCat("; stokerd --operator-library ", parts[2],
                      "=FILE brings operators that are written in C++, what is "
                      "registered from Python can't run here");
}

absl::Status CheckSchema(const JsonCursor& program) {
  ASSIGN_OR_RETURN(const JsonCursor schema, program.Member("schema_version"));
  ASSIGN_OR_RETURN(const JsonCursor major, schema.Member("major"));
  if (major.value() == kSchemaMajor) return absl::OkStatus();
  return major.Error(absl::StrCat("schema version ", kSchemaMajor,
                                  " (of torch 2.11); export the model again"));
}

// Every node of the graph and of graphs inside its arguments. A node is an
// object whose target is text: a tensor may well be called "target". The walk
// keeps a list of its own, because a hostile text may be nested more deeply
// than a stack.
absl::StatusOr<CalledOperators> CheckOperators(const JsonCursor& graph) {
  CalledOperators called;
  std::vector<const json*> open = {&graph.value()};
  while (!open.empty()) {
    const json& value = *open.back();
    open.pop_back();
    const std::string target = TextField(value, "target");
    if (Field(value, "target").is_string() && !IsOnSizes(target)) {
      const std::vector<std::string> parts = PartsOf(target);
      if (!IsAllowed(parts)) {
        return graph.Error(
            "operators that compute on tensors",
            absl::StrCat("'", target, "'", AtSourceLine(value), Remedy(parts)));
      }
      if (!IsListed(parts)) {
        called.unlisted.emplace(target, AtSourceLine(value));
      }
      if (!IsOwnLibrary(parts[2])) called.libraries.insert(parts[2]);
    }
    if (!value.is_structured()) continue;
    for (const auto& [key, child] : value.items()) {
      if (key != "metadata" && child.is_structured()) open.push_back(&child);
    }
  }
  return called;
}

// [{"as_int": 3}, ...] against {3, ...}.
bool SameSizes(const json& list, const std::vector<int64_t>& sizes) {
  return list.is_array() &&
         std::equal(list.begin(), list.end(), sizes.begin(), sizes.end(),
                    [](const json& size, int64_t expected) {
                      return Field(size, "as_int") == expected;
                    });
}

// A weight that the signature of `program` names, its value in the graph
// `value`.
absl::Status CheckTensor(const JsonCursor& program, const std::string& name,
                         const json& value, const StoredTensors& tensors) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) {
    return program.Error(
        absl::StrCat("a weight or constant ", name,
                     ", which the program takes, in the archive"),
        "none");
  }
  const StoredTensor& stored = it->second;
  if (Field(value, "dtype") != static_cast<int>(stored.type) ||
      !SameSizes(Field(value, "sizes"), stored.sizes) ||
      !SameSizes(Field(value, "strides"), stored.strides)) {
    return program.Error(absl::StrCat("the dtype, shape and layout of ", name,
                                      " that the archive holds"),
                         "others");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CalledOperators> CheckGraph(const JsonCursor& program) {
  RETURN_IF_ERROR(CheckSchema(program));
  ASSIGN_OR_RETURN(const JsonCursor module, program.Member("graph_module"));
  ASSIGN_OR_RETURN(const JsonCursor graph, module.Member("graph"));
  ASSIGN_OR_RETURN(const JsonCursor nodes, graph.Member("nodes"));
  if (!nodes.value().is_array()) return nodes.Error("an array");
  ASSIGN_OR_RETURN(const std::optional<JsonCursor> custom,
                   graph.Find("custom_obj_values"));
  if (custom && !custom->value().empty()) {
    return custom->Error("no custom objects");
  }
  return CheckOperators(graph);
}

absl::Status CheckWeights(const JsonCursor& program,
                          const StoredTensors& tensors) {
  ASSIGN_OR_RETURN(const JsonCursor module, program.Member("graph_module"));
  ASSIGN_OR_RETURN(const JsonCursor graph, module.Member("graph"));
  ASSIGN_OR_RETURN(const JsonCursor values, graph.Member("tensor_values"));
  if (!values.value().is_object()) return values.Error("an object");
  ASSIGN_OR_RETURN(const JsonCursor signature, module.Member("signature"));
  ASSIGN_OR_RETURN(const JsonCursor specs, signature.Member("input_specs"));
  if (!specs.value().is_array()) return specs.Error("an array");
  for (const json& spec : specs.value()) {
    const std::optional<OwnTensor> own = ReadOwnTensor(spec);
    if (!own.has_value()) continue;
    RETURN_IF_ERROR(CheckTensor(program, own->name,
                                Field(values.value(), own->value.c_str()),
                                tensors));
  }
  return absl::OkStatus();
}

}  // namespace stoker
