#include "compile_broker/worker_environment.h"

namespace stoker {

const std::vector<std::string>& WorkerVariables() {
  static const auto& names = *new std::vector<std::string>{
      // Where programs and libraries are, and those that the key or the
      // manifest names.
      "PATH", "LD_LIBRARY_PATH", "STOKER_CXX", "CUDA_HOME", "CUDA_PATH",
      // Which GPUs there are.
      "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
      // Who and where one is; work files; how text is encoded.
      "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE",
      "PYTHONDONTWRITEBYTECODE",
      // Of a bundle's own `python`, which finds the real one with them.
      "STOKER_PYTHON", "STOKER_OUTER_LIBRARY_PATH"};
  return names;
}

}  // namespace stoker
