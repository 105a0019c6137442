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
  app.add_option_function<double>(
         "--gpu-run-limit-seconds",
         [&gpu](double seconds) { gpu.run_limit = absl::Seconds(seconds); },
         "time after which a run on a GPU counts as hung, and the process ends")
      ->check(Seconds(/*zero_allowed=*/false))
      ->default_str("120");
  app.add_option_function<double>(
         "--gpu-idle-seconds",
         [&gpu](double seconds) {
           gpu.idle_after =
               seconds == 0 ? absl::InfiniteDuration() : absl::Seconds(seconds);
         },
         "time without a request after which a version's memory on a GPU may "
         "go "
         "to one whose load finds none; it is loaded again when it is asked "
         "for; 0: never")
      ->check(Seconds(/*zero_allowed=*/true))
      ->default_str("600");
}

}  // namespace stoker
