// What becomes of each field of Triton's model configuration. Private to this
// room.
#pragma once

#include <string_view>

namespace stoker {

struct ConfigMeaning {
  enum Kind {
    kRead,     // it says something of the model.yaml
    kIgnored,  // the model answers the same without it
    kRefused,  // it would answer something else
  };
  Kind kind = kRefused;
  std::string_view why;  // of the last two
};

// Of a message and a field of proto/model_config.proto. Only for messages that
// are looked into: what is below an ignored or refused field has no line.
ConfigMeaning MeaningOf(std::string_view message, std::string_view field);

}  // namespace stoker
