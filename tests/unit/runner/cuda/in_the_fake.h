// What a test says to the GPU that isn't there (tests/fakes/cuda), whose two
// libraries it is started with in LD_PRELOAD.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fakes/cuda/control.h"

namespace stoker {

template <typename Function>
Function* InTheFake(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) {
    std::fprintf(stderr, "the fake GPU isn't in LD_PRELOAD\n");
    std::abort();
  }
  return found;
}
inline void Script(const std::string& text) {
  InTheFake<decltype(fake_cuda_script)>("fake_cuda_script")(text.c_str());
}
inline long Calls(const char* call) {
  return InTheFake<decltype(fake_cuda_calls)>("fake_cuda_calls")(call);
}
inline long Live(const char* kind) {
  return InTheFake<decltype(fake_cuda_live)>("fake_cuda_live")(kind);
}

}  // namespace stoker
