// Names of a program's inputs and outputs as its author wrote them. The graph's
// own names can't serve: torch.export lower-cases placeholders and numbers
// results. The author's survive in the tree specs of the calling convention.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "program/json_cursor.h"

namespace stoker {

struct LeafNames {
  // In flat order, unique, printable.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// `graph_module`: the member of that name of model.json. `placeholders`: the
// graph's names of the flat inputs, used where the author's are not recorded.
//
//   forward(ids, pair: list, *, Mask)   ids, pair_0, pair_1, Mask
//   return x                            output
//   return x, (y, z)                    output_0, output_1_0, output_1_1
//   return {"a": x, "b": [y]}           a, b_0
//
// Of containers tuples, lists and dictionaries are known
// (program/plain_containers.h).
absl::StatusOr<LeafNames> ReadLeafNames(
    const JsonCursor& graph_module,
    const std::vector<std::string>& placeholders);

}  // namespace stoker
