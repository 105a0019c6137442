// Which version of a model somebody asks for.
#pragma once

#include <cstdint>
#include <string_view>

namespace stoker {

struct WantedVersion {
  int64_t number = 0;  // 0: the alias says
  // "canary"; empty: any, which is the newest that serves or, where the model
  // has aliases with a percentage, one of theirs.
  std::string_view alias;
};

}  // namespace stoker
