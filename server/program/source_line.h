// Where in the model's source an operator comes from, as torch.export noted it.
// Pure.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// " at modeling_bert.py:312" of a node, or of the first node that says so in
// the graphs that it calls; empty when none does. Of a stack trace it is the
// innermost line that isn't torch's own. The notes are text of whoever exported
// the program: what comes back is short, printable, and names no folder.
std::string AtSourceLine(const nlohmann::json& node);

}  // namespace stoker
