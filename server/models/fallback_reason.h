// Why a bucket has no compiled code of its own. What decides is the value; the
// name is the metrics' label, and the text that people read is made from it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace stoker {

enum class FallbackReason {
  kNone,            // it has, or that isn't settled yet
  kDisabled,        // model.yaml says 'compile: false'
  kNoCache,         // there is no kernel cache on this host
  kDynamicOnly,     // model.yaml says 'dynamic: only', and a form takes it
  kDynamicUntried,  // 'dynamic: auto': a form takes it, nothing else was tried
  kDynamicTie,      // a dynamic form is as fast
  kBudget,          // `budget_seconds` are spent
  kPayback,         // beyond `pays_back_within`
  kNoCompiler,
  kTimeout,   // of the compile
  kMemory,    // of the compile, of the disk or of the device
  kRefused,   // the generated code can't be made safe
  kCompile,   // it failed
  kUnjudged,  // the check could not be made; the next start tries again
  kOpen,      // the artifact doesn't open, or its first run failed
  kParity,    // it answers differently
  kProfit,    // it is no faster
  kRun,       // it was lost while it served
};

// "budget": the label `reason` of stoker_fallbacks_total, and `outcome` of
// stoker_promotions_total; empty where nothing is counted.
std::string_view FallbackReasonName(FallbackReason reason);

// "budget: not compiled: ...": for people.
std::string FallbackText(FallbackReason reason, std::string_view why);

// What a compile that ended with this status leaves its bucket with.
FallbackReason ReasonOfCompileError(const absl::Status& status);

// Of a verdict's `refusal`, "parity" or "profit".
FallbackReason ReasonOfRefusal(std::string_view refusal);

}  // namespace stoker
