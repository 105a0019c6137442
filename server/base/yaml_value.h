// Strict access to a YAML document: every mistake is noted with file, line,
// field, what was expected and what came, and reading goes on, so that one look
// shows all.
//
// Not thread-safe. A YamlValue borrows its YamlErrors.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stoker {

class YamlErrors {
 public:
  explicit YamlErrors(std::string path) : path_(std::move(path)) {}

  // "<path>:<line>: <field>: expected <expected>, got <got>"
  void Add(const YAML::Mark& mark, std::string_view field,
           std::string_view expected, std::string_view got);
  bool empty() const { return messages_.empty(); }
  // INVALID_ARGUMENT, one mistake a line; OK without any.
  absl::Status status() const;

 private:
  const std::string path_;
  std::vector<std::string> messages_;
};

// A value that is there. Accessors return nullopt after noting why.
class YamlValue {
 public:
  using Entries = std::vector<std::pair<std::string, YamlValue>>;

  YamlValue(const YAML::Node& node, std::string field, YamlErrors& errors)
      : node_(node), field_(std::move(field)), errors_(&errors) {}

  const std::string& field() const { return field_; }
  bool is_map() const { return node_.IsMap(); }
  bool is_list() const { return node_.IsSequence(); }
  // The text of an unquoted or quoted scalar; empty for anything else.
  std::string text() const { return node_.IsScalar() ? node_.Scalar() : ""; }

  std::optional<int64_t> Int(int64_t min, int64_t max) const;
  // The same; leaves `out` as it is where there is none.
  void ReadInt(int64_t min, int64_t max, int& out) const;
  // Infinities are written as in YAML: .inf, -.inf.
  std::optional<double> Number() const;
  // `expected`: what a mistake says, where more than a boolean may stand.
  std::optional<bool> Bool(std::string_view expected = "true or false") const;
  // Index of the choice.
  std::optional<int> Choice(const std::vector<std::string>& choices) const;
  std::optional<std::vector<YamlValue>> List() const;
  // Keys in the order written. Notes duplicates, and keys that are not
  // `allowed` with the nearest one that is; leaves both out.
  std::optional<Entries> Map(const std::vector<std::string>& allowed) const;
  // The same for a map whose keys are names that the operator chooses.
  std::optional<Entries> MapOfNames() const;

  // Notes that this value isn't as expected; `got` empty: shows the value.
  void Error(std::string_view expected, std::string_view got = {}) const;

 private:
  std::optional<Entries> ReadMap(const std::vector<std::string>* allowed) const;
  std::string Child(std::string_view name) const;

  YAML::Node node_;
  std::string field_;
  YamlErrors* errors_;
};

// The one document of `text`, as a map; an empty text is an empty map. Broken
// syntax, several documents and a top that isn't a map are INVALID_ARGUMENT.
absl::StatusOr<YAML::Node> ParseYaml(std::string_view text,
                                     const std::string& path);

}  // namespace stoker
