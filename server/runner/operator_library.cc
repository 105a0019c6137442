#include "runner/operator_library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// Whether torch knows an operator of "<name>::".
bool IsRegistered(const std::string& name) {
  const auto operators = c10::Dispatcher::singleton().getAllOpNames();
  return std::any_of(operators.begin(), operators.end(), [&](const auto& one) {
    return absl::StartsWith(one.name, absl::StrCat(name, "::"));
  });
}

}  // namespace

absl::Status LoadOperatorLibrary(const OperatorLibrary& library) {
  if (dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("can't open ", library.path, ": ", dlerror()));
  }
  if (IsRegistered(library.name)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("expected ", library.path, " to register operators of ",
                   "torch.ops.", library.name, ", got none"));
}

absl::StatusOr<std::vector<OperatorLibrary>> LoadOperatorLibraries(
    const std::vector<std::string>& texts) {
  ASSIGN_OR_RETURN(std::vector<OperatorLibrary> libraries,
                   AllowOperatorLibraries(texts));
  for (const OperatorLibrary& library : libraries) {
    RETURN_IF_ERROR(LoadOperatorLibrary(library));
  }
  return libraries;
}

}  // namespace stoker
