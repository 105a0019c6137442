#include "main/gpu_options.h"

#include "CLI/CLI.hpp"
#include "main/seconds.h"
#include "runner/gpus.h"

namespace stoker {

void AddGpuOptions(CLI::App& app, GpuServing& gpu) {
  gpu.library = DefaultGpuLibrary();
  app.add_option("--cuda-library", gpu.library,
                 "libstoker_cuda.so, which is opened where a model asks for a "
                 "GPU; beside stokerd or in ../lib/stoker unless given");
  AddSeconds(
      app, "--gpu-run-limit-seconds", gpu.run_limit,
      "time after which a run on a GPU counts as hung, and the process ends");
  AddSeconds(app, "--gpu-idle-seconds", gpu.idle_after,
             "time without a request after which a version's memory on a GPU "
             "may go to one whose load finds none; it is loaded again when it "
             "is asked for; 0: never",
             /*or_never=*/true);
}

}  // namespace stoker
