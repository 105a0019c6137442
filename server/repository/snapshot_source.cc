#include "repository/snapshot_source.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "repository/model_folder.h"

namespace stoker {

bool IsAlias(std::string_view text) {
  constexpr size_t kMost = 64;
  return !text.empty() && text.size() <= kMost &&
         absl::ascii_isalpha(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

const std::string* ModelOverride::aliases_alone() const {
  const bool alone = !config.has_value() && files.size() == 1 &&
                     files.begin()->first == kAliasesFile;
  return alone ? &files.begin()->second : nullptr;
}

}  // namespace stoker
