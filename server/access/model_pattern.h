// Names of models that a rule is about: "minilm", "team-a-*", "v?-*".
//
// A value.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace stoker {

class ModelPattern {
 public:
  // "*" stands for any characters or none, "?" for one; all others for
  // themselves.
  explicit ModelPattern(std::string pattern) : pattern_(std::move(pattern)) {}

  bool Matches(std::string_view model) const;
  // Whether every name matches.
  bool matches_all() const {
    return pattern_.find_first_not_of('*') == std::string::npos &&
           !pattern_.empty();
  }
  const std::string& text() const { return pattern_; }

 private:
  std::string pattern_;
};

}  // namespace stoker
