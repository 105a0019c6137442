#include "models/fallback_reason.h"

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker {

std::string_view FallbackReasonName(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::kNone:
    case FallbackReason::kDisabled:
    case FallbackReason::kNoCache:
      return "";
    case FallbackReason::kDynamicOnly:
    case FallbackReason::kDynamicUntried:
    case FallbackReason::kDynamicTie:
      return "dynamic";
    case FallbackReason::kBudget:
      return "budget";
    case FallbackReason::kPayback:
      return "payback";
    case FallbackReason::kNoCompiler:
      return "no_compiler";
    case FallbackReason::kTimeout:
      return "timeout";
    case FallbackReason::kMemory:
      return "memory";
    case FallbackReason::kRefused:
      return "refused";
    case FallbackReason::kCompile:
      return "compile";
    case FallbackReason::kUnjudged:
      return "unjudged";
    case FallbackReason::kOpen:
      return "open";
    case FallbackReason::kParity:
      return "parity";
    case FallbackReason::kProfit:
      return "profit";
    case FallbackReason::kRun:
      return "run";
  }
  return "";
}

std::string FallbackText(FallbackReason reason, std::string_view why) {
  const std::string_view name = FallbackReasonName(reason);
  if (name.empty()) return std::string(why);
  return absl::StrCat(Absl(name), ": ", Absl(why));
}

FallbackReason ReasonOfCompileError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return FallbackReason::kNoCompiler;
    case absl::StatusCode::kDeadlineExceeded:
      return FallbackReason::kTimeout;
    case absl::StatusCode::kResourceExhausted:
      return FallbackReason::kMemory;
    case absl::StatusCode::kFailedPrecondition:
      return FallbackReason::kRefused;
    default:
      return FallbackReason::kCompile;
  }
}

FallbackReason ReasonOfRefusal(std::string_view refusal) {
  return refusal == "profit" ? FallbackReason::kProfit
                             : FallbackReason::kParity;
}

}  // namespace stoker
