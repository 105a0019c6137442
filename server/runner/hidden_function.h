// A function of libtorch's that one of the program's own hides, by having its
// name. Private to this room.
#pragma once

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace stoker {

// `here` is the program's own; its type is the other's. Throws where libtorch
// has none of that name.
template <typename Function>
Function* Hidden(Function* /*here*/, const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  TORCH_CHECK(found != nullptr, "libtorch lacks ", name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace stoker
