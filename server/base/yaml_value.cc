#include "base/yaml_value.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

// yaml-cpp tags a quoted scalar "!" and a plain one "?".
bool IsPlain(const YAML::Node& node) {
  return node.IsScalar() && node.Tag() != "!";
}

std::string Shown(const YAML::Node& node) {
  constexpr size_t kMaxShown = 60;
  switch (node.Type()) {
    case YAML::NodeType::Scalar: {
      std::string text = node.Scalar().substr(0, kMaxShown);
      if (text.size() < node.Scalar().size()) text += "...";
      return IsPlain(node) ? text : absl::StrCat("the text \"", text, "\"");
    }
    case YAML::NodeType::Sequence:
      return absl::StrCat("a list of ", node.size());
    case YAML::NodeType::Map:
      return absl::StrCat("a map of ", node.size());
    default:
      return "nothing";
  }
}

// Levenshtein's distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// " (did you mean x?)" for a name that looks like a slip of one of `known`.
std::string Suggestion(std::string_view name,
                       const std::vector<std::string>& known) {
  constexpr size_t kMaxName = 64;
  if (name.size() > kMaxName) return "";
  std::string_view nearest;
  size_t least = std::max<size_t>(2, name.size() / 2);
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance <= least && distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  if (nearest.empty()) return "";
  return absl::StrCat(" (did you mean ", Absl(nearest), "?)");
}

}  // namespace

void YamlErrors::Add(const YAML::Mark& mark, std::string_view field,
                     std::string_view expected, std::string_view got) {
  messages_.push_back(absl::StrCat(path_, ":", std::max(mark.line, 0) + 1, ": ",
                                   Absl(field), field.empty() ? "" : ": ",
                                   "expected ", Absl(expected), ", got ",
                                   Absl(got)));
}

absl::Status YamlErrors::status() const {
  if (messages_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(messages_, "\n"));
}

std::string YamlValue::Child(std::string_view name) const {
  return absl::StrCat(field_, field_.empty() ? "" : ".", Absl(name));
}

void YamlValue::Error(std::string_view expected, std::string_view got) const {
  errors_->Add(node_.Mark(), field_, expected,
               got.empty() ? Shown(node_) : std::string(got));
}

std::optional<int64_t> YamlValue::Int(int64_t min, int64_t max) const {
  int64_t value = 0;
  if (IsPlain(node_) && absl::SimpleAtoi(node_.Scalar(), &value) &&
      value >= min && value <= max) {
    return value;
  }
  Error(max == std::numeric_limits<int64_t>::max()
            ? absl::StrCat("an integer from ", min, " up")
            : absl::StrCat("an integer from ", min, " to ", max));
  return std::nullopt;
}

void YamlValue::ReadInt(int64_t min, int64_t max, int& out) const {
  if (const std::optional<int64_t> number = Int(min, max)) {
    out = static_cast<int>(*number);
  }
}

std::optional<double> YamlValue::Number() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (IsPlain(node_)) {
    const std::string& text = node_.Scalar();
    if (text == ".inf") return kInfinity;
    if (text == "-.inf") return -kInfinity;
    double value = 0;
    // SimpleAtod also takes "inf", "nan" and hexadecimal; YAML doesn't.
    if (text.find_first_not_of("+-.0123456789eE") == text.npos &&
        absl::SimpleAtod(text, &value)) {
      return value;
    }
  }
  Error("a number");
  return std::nullopt;
}

std::optional<bool> YamlValue::Bool(std::string_view expected) const {
  if (IsPlain(node_)) {
    if (node_.Scalar() == "true") return true;
    if (node_.Scalar() == "false") return false;
  }
  Error(expected);
  return std::nullopt;
}

std::optional<int> YamlValue::Choice(
    const std::vector<std::string>& choices) const {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (node_.IsScalar() && node_.Scalar() == choices[i]) {
      return static_cast<int>(i);
    }
  }
  Error(absl::StrJoin(choices, " or "),
        absl::StrCat(Shown(node_), node_.IsScalar()
                                       ? Suggestion(node_.Scalar(), choices)
                                       : std::string()));
  return std::nullopt;
}

std::optional<std::vector<YamlValue>> YamlValue::List() const {
  if (!node_.IsSequence()) {
    Error("a list");
    return std::nullopt;
  }
  std::vector<YamlValue> values;
  for (size_t i = 0; i < node_.size(); ++i) {
    values.emplace_back(node_[i], absl::StrCat(field_, "[", i, "]"), *errors_);
  }
  return values;
}

std::optional<YamlValue::Entries> YamlValue::Map(
    const std::vector<std::string>& allowed) const {
  return ReadMap(&allowed);
}

std::optional<YamlValue::Entries> YamlValue::MapOfNames() const {
  return ReadMap(nullptr);
}

std::optional<YamlValue::Entries> YamlValue::ReadMap(
    const std::vector<std::string>* allowed) const {
  if (!node_.IsMap()) {
    Error("a map");
    return std::nullopt;
  }
  Entries entries;
  std::set<std::string> seen;
  for (const auto& pair : node_) {
    const std::string name =
        pair.first.IsScalar() ? pair.first.Scalar() : Shown(pair.first);
    const std::string field = Child(name);
    if (allowed &&
        std::find(allowed->begin(), allowed->end(), name) == allowed->end()) {
      errors_->Add(pair.first.Mark(), field,
                   allowed->empty()
                       ? "no field here"
                       : absl::StrCat("one of ", absl::StrJoin(*allowed, ", ")),
                   "an unknown field" + Suggestion(name, *allowed));
    } else if (!seen.insert(name).second) {
      errors_->Add(pair.first.Mark(), field, "it once", "it again");
    } else {
      entries.emplace_back(name, YamlValue(pair.second, field, *errors_));
    }
  }
  return entries;
}

absl::StatusOr<YAML::Node> ParseYaml(std::string_view text,
                                     const std::string& path) {
  YamlErrors errors(path);
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty() || (documents.size() == 1 && documents[0].IsNull())) {
      return YAML::Node(YAML::NodeType::Map);
    }
    if (documents.size() == 1 && documents[0].IsMap()) return documents[0];
    if (documents.size() == 1) {
      errors.Add(documents[0].Mark(), "", "a map of fields",
                 Shown(documents[0]));
    } else {
      errors.Add(documents[1].Mark(), "", "one document",
                 absl::StrCat(documents.size()));
    }
  } catch (const YAML::Exception& error) {
    errors.Add(error.mark, "", "YAML", error.msg);
  }
  return errors.status();
}

}  // namespace stoker
