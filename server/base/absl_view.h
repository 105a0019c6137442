// Debian builds abseil with a string_view of its own, which does not convert
// from std::string_view. Absl() goes between at calls into abseil, and costs
// nothing:
//
//   absl::StrCat(Absl(name), ": ", count)
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace stoker {

constexpr absl::string_view Absl(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace stoker
