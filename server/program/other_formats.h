// Files that people put where an exported program belongs. Pure; private to
// this room.
#pragma once

#include <string_view>

namespace stoker {

// What the bytes look like and what to do, as in "a TorchScript archive:
// export the model with torch.export.export, torch.jit made this"; empty for
// what torch.export.save writes now, and for what nobody knows. Looks at the
// beginning and the end only. A guess, for people: nothing is decided by it.
std::string_view OtherFormat(std::string_view bytes);

}  // namespace stoker
