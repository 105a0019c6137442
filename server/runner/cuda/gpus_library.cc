// The door of libstoker_cuda.so.
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log_levels.h"
#include "base/lost_pages.h"
#include "program/operator_libraries.h"
#include "runner/cuda/cuda_gpus.h"

namespace stoker {

extern "C" Gpus* stoker_open_gpus(const char* build, const GpuOptions& options,
                                  const std::vector<OperatorLibrary>& operators,
                                  log::LevelWord& levels,
                                  absl::Status& status) {
  if (GpuLibraryBuild() != build) {
    status = absl::FailedPreconditionError(
        absl::StrCat("libstoker_cuda.so is of build ", GpuLibraryBuild(),
                     ", stokerd of build ", build));
    return nullptr;
  }
  log::ShareLevels(levels);
  ShareOperatorLibraries(operators);
  OutliveLostPages();
  auto gpus = OpenCudaGpus(options);
  status = gpus.status();
  return gpus.ok() ? gpus->release() : nullptr;
}

}  // namespace stoker
