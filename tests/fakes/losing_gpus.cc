// In libstoker_cuda.so's place: has no GPU, and loses one all the same, when
// the file appears that STOKER_LOSE_GPU names.
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "program/operator_libraries.h"
#include "runner/gpus.h"

extern "C" stoker::Gpus* stoker_open_gpus(
    const char* /*build*/, const stoker::GpuOptions& options,
    const std::vector<stoker::OperatorLibrary>& /*operators*/,
    stoker::log::LevelWord& /*levels*/, absl::Status& status) {
  std::thread([on_lost = options.on_lost,
               file = std::string(std::getenv("STOKER_LOSE_GPU"))] {
    const timespec wait = {.tv_sec = 0, .tv_nsec = 10'000'000};
    while (access(file.c_str(), F_OK) != 0) nanosleep(&wait, nullptr);
    on_lost("cuda:0 is lost: a test says so");
  }).detach();
  status = absl::FailedPreconditionError("there is none");
  return nullptr;
}
