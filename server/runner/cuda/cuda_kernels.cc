#include "runner/cuda/cuda_kernels.h"

#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_field.h"
#include "program/source_line.h"
#include "runner/registered_operator.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr c10::DispatchKey kOnGpus[] = {
    c10::DispatchKey::CUDA, c10::DispatchKey::SparseCUDA,
    c10::DispatchKey::SparseCsrCUDA, c10::DispatchKey::QuantizedCUDA,
    c10::DispatchKey::NestedTensorCUDA};
constexpr c10::DispatchKey kOnCpus[] = {
    c10::DispatchKey::CPU, c10::DispatchKey::SparseCPU,
    c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::QuantizedCPU,
    c10::DispatchKey::NestedTensorCPU};

// What is known of no device, numbers' operators and what nativert does itself,
// is not for CPUs only.
bool IsForCpusOnly(const std::string& target) {
  const auto op = FindOperator(target);
  if (!op) return false;
  const auto has = [&](c10::DispatchKey key) {
    return op->hasComputedKernelForDispatchKey(key);
  };
  return std::any_of(std::begin(kOnCpus), std::end(kOnCpus), has) &&
         std::none_of(std::begin(kOnGpus), std::end(kOnGpus), has);
}

}  // namespace

absl::Status CheckHasCudaKernels(const ProgramArchive& archive) {
  // A list of its own: the text may be nested more deeply than a stack.
  std::vector<const json*> open = {&archive.program()};
  while (!open.empty()) {
    const json& value = *open.back();
    open.pop_back();
    const std::string target = TextField(value, "target");
    if (IsForCpusOnly(target)) {
      return absl::InvalidArgumentError(absl::StrCat(
          archive.program_place(),
          ": expected operators that run on GPUs, "
          "got '",
          target, "'", AtSourceLine(value),
          ", which there is for CPUs only; 'device: cpu' serves it"));
    }
    if (!value.is_structured()) continue;
    for (const auto& [key, child] : value.items()) {
      if (key != "metadata" && child.is_structured()) open.push_back(&child);
    }
  }
  return absl::OkStatus();
}

}  // namespace stoker
