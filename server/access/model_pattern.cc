#include "access/model_pattern.h"

namespace stoker {

// Goes back to the last "*" only: of several, the earlier ones never need to
// take more. At most pattern times name steps.
bool ModelPattern::Matches(std::string_view model) const {
  const std::string_view pattern = pattern_;
  size_t at = 0;
  size_t star = pattern.npos;
  size_t star_took = 0;  // the name's position behind what it stands for
  for (size_t i = 0; i < model.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_took = i;
    } else if (at < pattern.size() &&
               (pattern[at] == '?' || pattern[at] == model[i])) {
      ++at;
      ++i;
    } else if (star != pattern.npos) {
      at = star + 1;
      i = ++star_took;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == pattern.npos;
}

}  // namespace stoker
