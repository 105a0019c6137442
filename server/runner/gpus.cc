#include "runner/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log_levels.h"
#include "program/operator_libraries.h"

namespace stoker {
namespace {

constexpr char kLibraryName[] = "libstoker_cuda.so";

std::string Describe(const GpuFacts& gpu) {
  return absl::StrFormat("cuda:%d (%s, %s)", gpu.index, gpu.name, gpu.uuid);
}

}  // namespace

std::string GpuLibraryBuild() {
  return absl::StrCat(STOKER_VERSION, " ", STOKER_TORCH_GIT);
}

std::string DefaultGpuLibrary() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / kLibraryName;
  if (fs::exists(beside, error)) return beside.string();
  // Where packages put it: the name that is said when it is in neither.
  return (folder.parent_path() / "lib/stoker" / kLibraryName).string();
}

absl::StatusOr<std::unique_ptr<Gpus>> OpenGpus(const std::string& library,
                                               const GpuOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(library, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU can be used: ", library,
                     " isn't there; --cuda-library says where it is"));
  }
  // Never closed: torch's CUDA half registers itself in the process. Its
  // symbols stay its own, but for those of libraries that are open already.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU can be used: ", dlerror(),
                     "; it needs the CUDA libraries of torch's wheels"));
  }
  auto* open =
      reinterpret_cast<OpenGpusFunction*>(dlsym(handle, kOpenGpusSymbol));
  if (open == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        library, ": expected a function ", kOpenGpusSymbol, ", found none"));
  }
  absl::Status status;
  std::unique_ptr<Gpus> gpus(open(GpuLibraryBuild().c_str(), options,
                                  AllowedOperatorLibraries(), log::KeptLevels(),
                                  status));
  if (gpus == nullptr) return status;
  return gpus;
}

absl::StatusOr<int> FindGpu(const Device& device,
                            const std::vector<GpuFacts>& facts,
                            const std::vector<int64_t>& free_bytes) {
  if (device.kind == Device::Kind::kAnyGpu && !facts.empty()) {
    const auto most = std::max_element(free_bytes.begin(), free_bytes.end());
    return facts[static_cast<size_t>(most - free_bytes.begin())].index;
  }
  for (const GpuFacts& gpu : facts) {
    if (device.kind == Device::Kind::kGpu && gpu.index == device.index) {
      return gpu.index;
    }
    if (device.kind == Device::Kind::kGpuByUuid && gpu.uuid == device.uuid) {
      return gpu.index;
    }
  }
  const bool slice = device.uuid.rfind("MIG-", 0) == 0;
  return absl::FailedPreconditionError(
      absl::StrCat(device.Text(), " isn't here; this process sees ",
                   absl::StrJoin(facts, ", ",
                                 [](std::string* out, const GpuFacts& gpu) {
                                   out->append(Describe(gpu));
                                 }),
                   slice ? "; CUDA shows a process one MIG slice, which "
                           "CUDA_VISIBLE_DEVICES chooses"
                         : ""));
}

}  // namespace stoker
