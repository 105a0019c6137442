// How the server uses GPUs, where models ask for some.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

struct GpuServing {
  std::string library;  // libstoker_cuda.so
  absl::Duration run_limit = absl::Seconds(120);
  // Of a version whose memory may go to others; infinite: none's.
  absl::Duration idle_after = absl::Minutes(10);
};

// `gpu` outlives the parsing.
void AddGpuOptions(CLI::App& app, GpuServing& gpu);

}  // namespace stoker
