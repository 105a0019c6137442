// Untrusted JSON: bounded parsing, and access that checks every type and says
// where in the document it was disappointed.
//
// Immutable; a cursor borrows the document.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stoker {

// INVALID_ARGUMENT, beginning with `where`, when the text isn't JSON, nests
// deeper than kMaxJsonDepth or holds more than kMaxJsonValues values
// (program/limits.h).
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text,
                                         std::string_view where);

class JsonCursor {
 public:
  // `where` begins every error: a file's name.
  JsonCursor(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // The member `key`, which must be there.
  absl::StatusOr<JsonCursor> Member(std::string_view key) const;
  // The member `key`; nullopt when it is missing or null.
  absl::StatusOr<std::optional<JsonCursor>> Find(std::string_view key) const;
  absl::StatusOr<std::vector<std::pair<std::string, JsonCursor>>> Members()
      const;
  // The single member of a tagged union: {"as_tensor": {...}}.
  absl::StatusOr<std::pair<std::string, JsonCursor>> Union() const;
  absl::StatusOr<std::vector<JsonCursor>> Elements() const;

  absl::StatusOr<int64_t> Int() const;
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<std::string> String() const;

  // INVALID_ARGUMENT "<where>/a/b: expected <expected>, got <got>"; `got`
  // empty: what is there.
  absl::Status Error(std::string_view expected,
                     std::string_view got = {}) const;

 private:
  JsonCursor Child(const nlohmann::json& value, std::string_view step) const;

  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace stoker
