// Inputs, outputs and warm-up samples of a config.pbtxt against what the
// program says. Private to this room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "repository/config_pbtxt.h"
#include "repository/model_spec.h"

namespace stoker {

struct ConfigTensors {
  // An input that is made of each batch; by the program's names.
  struct BatchInput {
    std::string target;
    std::string kind;
    std::string source;
    int line = 0;
  };
  // A tensor that clients know by another name or shape than the program.
  struct Tensor {
    std::string program;
    std::string config;
    int line = 0;
    std::optional<Reshape> reshape;  // without the batch
    bool is_bytes = false;           // TYPE_STRING, for rows of UINT8
    // Of an optional input, as it is written, and its line.
    std::optional<std::pair<std::string, int>> default_value = std::nullopt;
  };
  struct Sizes {
    std::set<int64_t> sizes;
    int line = 0;  // of the first that was named
  };
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<BatchInput> batch_inputs;
  // Sizes that it names, by the dimension's index.
  std::map<int, Sizes> sizes;
};

// "default.NAME": the key of the parameter that says what an optional input has
// where a request leaves it out.
inline constexpr char kDefaultKey[] = "default.";

// Mistakes are noted. A name is the program's, or ends in "__" and the tensor's
// position.
ConfigTensors MatchTensors(const ConfigPbtxt& file, const ModelSpec& program,
                           ConfigNotes& notes);

}  // namespace stoker
