#include "program/json_cursor.h"

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "program/limits.h"

namespace stoker {
namespace {

using nlohmann::json;

// Refuses what would make the parser's result unreasonably deep or large.
// Counts without checking the grammar; that is the parser's work.
absl::Status CheckExtent(std::string_view text, std::string_view where) {
  int depth = 0;
  int64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > kMaxJsonDepth) {
        return absl::InvalidArgumentError(
            absl::StrCat(Absl(where), ": expected at most ", kMaxJsonDepth,
                         " levels of nesting, got more at byte ", i));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && ++values > kMaxJsonValues) {
      return absl::InvalidArgumentError(
          absl::StrCat(Absl(where), ": expected at most ", kMaxJsonValues,
                       " values, got more"));
    }
  }
  return absl::OkStatus();
}

// What an error says was found: the value itself where that is short.
std::string Shown(const json& value) {
  constexpr size_t kMaxShown = 80;
  if (value.is_object()) {
    return absl::StrCat("an object of ", value.size(), " members");
  }
  if (value.is_array()) {
    return absl::StrCat("an array of ", value.size(), " elements");
  }
  std::string text = JsonText(value, {.ascii = true});
  if (text.size() > kMaxShown) text = absl::StrCat(text.substr(0, 77), "...");
  return text;
}

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view where) {
  RETURN_IF_ERROR(CheckExtent(text, where));
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(Absl(where), ": expected JSON, got: ", error.what()));
  }
}

JsonCursor JsonCursor::Child(const json& value, std::string_view step) const {
  return JsonCursor(value, absl::StrCat(where_, "/", Absl(step)));
}

absl::Status JsonCursor::Error(std::string_view expected,
                               std::string_view got) const {
  return absl::InvalidArgumentError(
      absl::StrCat(where_, ": expected ", Absl(expected), ", got ",
                   got.empty() ? Shown(*value_) : std::string(got)));
}

absl::StatusOr<JsonCursor> JsonCursor::Member(std::string_view key) const {
  if (!value_->is_object()) return Error("an object");
  const auto it = value_->find(std::string(key));
  if (it == value_->end()) {
    return Error(absl::StrCat("a member \"", Absl(key), "\""));
  }
  return Child(*it, key);
}

absl::StatusOr<std::optional<JsonCursor>> JsonCursor::Find(
    std::string_view key) const {
  if (!value_->is_object()) return Error("an object");
  const auto it = value_->find(std::string(key));
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return Child(*it, key);
}

absl::StatusOr<std::vector<std::pair<std::string, JsonCursor>>>
JsonCursor::Members() const {
  if (!value_->is_object()) return Error("an object");
  std::vector<std::pair<std::string, JsonCursor>> members;
  members.reserve(value_->size());
  for (const auto& [key, value] : value_->items()) {
    members.emplace_back(key, Child(value, key));
  }
  return members;
}

absl::StatusOr<std::pair<std::string, JsonCursor>> JsonCursor::Union() const {
  if (!value_->is_object() || value_->size() != 1) {
    return Error("an object of one member");
  }
  const auto it = value_->begin();
  return std::pair(it.key(), Child(*it, it.key()));
}

absl::StatusOr<std::vector<JsonCursor>> JsonCursor::Elements() const {
  if (!value_->is_array()) return Error("an array");
  std::vector<JsonCursor> elements;
  elements.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.push_back(Child((*value_)[i], absl::StrCat(i)));
  }
  return elements;
}

absl::StatusOr<int64_t> JsonCursor::Int() const {
  const bool fits = value_->is_number_unsigned()
                        ? value_->get<uint64_t>() <= uint64_t{INT64_MAX}
                        : value_->is_number_integer();
  if (!fits) return Error("a 64-bit integer");
  return value_->get<int64_t>();
}

absl::StatusOr<bool> JsonCursor::Bool() const {
  if (!value_->is_boolean()) return Error("true or false");
  return value_->get<bool>();
}

absl::StatusOr<std::string> JsonCursor::String() const {
  if (!value_->is_string()) return Error("a string");
  return value_->get<std::string>();
}

}  // namespace stoker
