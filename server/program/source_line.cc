#include "program/source_line.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/json_field.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr size_t kMostCharacters = 80;  // of a file's name

struct Frame {
  std::string_view file;
  std::string_view line;
};

// Of a trace's line `  File "model.py", line 12, in forward`.
std::optional<Frame> ReadFrame(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const size_t file = text.find(kFile);
  if (file == text.npos) return std::nullopt;
  text.remove_prefix(file + kFile.size());
  const size_t line = text.find(kLine);
  if (line == text.npos) return std::nullopt;
  const std::string_view number = text.substr(line + kLine.size());
  const size_t digits = number.find_first_not_of("0123456789");
  return Frame{text.substr(0, line), number.substr(0, digits)};
}

// Torch's own lines say which function was called, which the operator says too;
// code that torch generated is in no file.
bool IsTorchs(std::string_view file) {
  for (const std::string_view packages : {"site-packages/", "dist-packages/"}) {
    const size_t at = file.rfind(packages);
    if (at != file.npos) file.remove_prefix(at + packages.size());
  }
  return file.starts_with("torch/") || file.starts_with("<eval_with_key>");
}

std::string InTrace(const std::string& trace) {
  std::optional<Frame> innermost;
  bool is_models = false;
  for (const absl::string_view text : absl::StrSplit(trace, '\n')) {
    const auto frame = ReadFrame({text.data(), text.size()});
    if (!frame || frame->line.empty()) continue;
    const bool models = !IsTorchs(frame->file);
    if (models || !is_models) innermost = frame;
    is_models = is_models || models;
  }
  if (!innermost) return "";
  std::string_view path = innermost->file;
  path.remove_prefix(path.find_last_of("/\\") + 1);
  std::string name;
  for (const char c : path.substr(0, kMostCharacters)) {
    if (absl::ascii_isprint(static_cast<unsigned char>(c))) name += c;
  }
  return absl::StrCat(" at ", name, ":", Absl(innermost->line.substr(0, 9)));
}

}  // namespace

std::string AtSourceLine(const json& node) {
  const json& trace = Field(Field(node, "metadata"), "stack_trace");
  if (trace.is_string()) {
    std::string line = InTrace(trace.get_ref<const std::string&>());
    if (!line.empty()) return line;
  }
  const json& inputs = Field(node, "inputs");
  if (!inputs.is_array()) return "";
  for (const json& input : inputs) {
    const json& called = Field(Field(input, "arg"), "as_graph");
    const json& nodes = Field(Field(called, "graph"), "nodes");
    if (!nodes.is_array()) continue;
    for (const json& inner : nodes) {
      std::string line = AtSourceLine(inner);
      if (!line.empty()) return line;
    }
  }
  return "";
}

}  // namespace stoker
