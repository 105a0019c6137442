// Debian builds abseil with a string_view of its own, which does not convert
// from or to std::string_view. Absl() and Std() go between and cost nothing:
//
//   absl::StrCat(Absl(name), ": ", count)
//   log::Warn("{}", Std(status.message()))
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace stoker {

constexpr absl::string_view Absl(std::string_view text) {
  return {text.data(), text.size()};
}

constexpr std::string_view Std(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace stoker
