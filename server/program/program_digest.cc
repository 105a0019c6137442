#include "program/program_digest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/sha256.h"

namespace stoker {
namespace {

using nlohmann::json;

// Hashes JSON as `dump` would write it, without making that text: a graph may
// be of hundreds of megabytes.
class CanonicalHash {
 public:
  // What differs between exports of the same program is left out. Objects are
  // told apart by members that only they have, because tensors' names are keys
  // of some objects and may well be "metadata" or "hint".
  void Add(const json& value) {
    if (value.is_object()) {
      const bool is_node = Field(value, "target").is_string();
      const bool is_symbolic_size = Field(value, "expr_str").is_string();
      char separator = '{';
      for (const auto& [key, child] : value.items()) {
        if (is_node && key == "metadata") continue;
        if (is_symbolic_size && key == "hint") continue;
        Add(separator);
        AddText(key);
        Add(':');
        Add(child);
        separator = ',';
      }
      if (separator == '{') Add('{');
      Add('}');
    } else if (value.is_array()) {
      char separator = '[';
      for (const json& child : value) {
        Add(separator);
        Add(child);
        separator = ',';
      }
      if (separator == '[') Add('[');
      Add(']');
    } else if (value.is_string()) {
      AddText(value.get_ref<const std::string&>());
    } else {
      absl::StrAppend(&pending_, Dump(value));
    }
  }
  void Add(char c) {
    pending_ += c;
    constexpr size_t kEnough = 1 << 16;
    if (pending_.size() >= kEnough) Flush();
  }
  void AddText(const std::string& text) {
    const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
      return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    });
    if (is_plain) {
      absl::StrAppend(&pending_, "\"", text, "\"");
    } else {
      absl::StrAppend(&pending_, Dump(text));
    }
  }
  std::string Hex() {
    Flush();
    return hash_.Hex();
  }

 private:
  static std::string Dump(const json& value) { return JsonText(value); }
  void Flush() {
    hash_.Add(pending_);
    pending_.clear();
  }

  Sha256 hash_;
  std::string pending_;
};

json Describe(const StoredTensors& tensors) {
  json constants = json::array();
  // Tied tensors make other code than equal ones, so each names the first
  // tensor that it shares its storage with.
  std::map<std::string_view, std::string_view> first_of_member;
  for (const auto& [name, tensor] : tensors) {
    const auto first = first_of_member.try_emplace(tensor.member, name).first;
    constants.push_back({{"name", name},
                         {"dtype", static_cast<int>(tensor.type)},
                         {"sizes", tensor.sizes},
                         {"strides", tensor.strides},
                         {"offset", tensor.offset},
                         {"device", tensor.device},
                         {"storage", first->second}});
  }
  return constants;
}

json Names(const std::vector<ProgramTensor>& tensors) {
  json names = json::array();
  for (const ProgramTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

}  // namespace

std::string ProgramDigest(const ProgramArchive& archive,
                          const ProgramSignature& signature) {
  const json& program = archive.program();
  const json& module = Field(program, "graph_module");
  const json constants = Describe(archive.tensors());
  const json inputs = Names(signature.inputs);
  const json outputs = Names(signature.outputs);
  CanonicalHash hash;
  char separator = '{';
  const auto add = [&](const std::string& name, const json& value) {
    hash.Add(separator);
    hash.AddText(name);
    hash.Add(':');
    hash.Add(value);
    separator = ',';
  };
  // By name: a text that was sorted once is what the digests of all caches are
  // of.
  add("constants", constants);
  add("graph", Field(module, "graph"));
  if (!inputs.empty()) add("inputs", inputs);
  add("opset_version", Field(program, "opset_version"));
  if (!outputs.empty()) add("outputs", outputs);
  add("range_constraints", Field(program, "range_constraints"));
  add("signature", Field(module, "signature"));
  hash.Add('}');
  return hash.Hex();
}

std::string ContentDigest(const ProgramArchive& archive) {
  std::string lines;
  for (const std::string member :
       {"data/constants/model_constants_config.json",
        "data/weights/model_weights_config.json", "models/model.json"}) {
    const auto content = archive.zip()->View(archive.folder() + member);
    if (!content.ok()) continue;
    absl::StrAppend(&lines, Sha256Hex(*content), "  ", member, "\n");
  }
  return Sha256Hex(lines);
}

std::string WeightsDigest(const ProgramArchive& archive) {
  const ZipArchive& zip = *archive.zip();
  // The folder's name is not part of it.
  const size_t top = archive.folder().size() - 1;
  std::string identity;
  for (const char* part : {"data/weights/", "data/constants/"}) {
    const std::string folder = archive.folder() + part;
    for (auto it = zip.members().lower_bound(folder);
         it != zip.members().end() && it->first.starts_with(folder); ++it) {
      absl::StrAppend(&identity, it->first.substr(top), " ", it->second.size,
                      " ", it->second.crc32, "\n");
    }
  }
  return Sha256Hex(identity);
}

}  // namespace stoker
