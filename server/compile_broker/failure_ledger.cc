#include "compile_broker/failure_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stoker {

bool FailureLedger::Record(const ArtifactKey& key,
                           const absl::Status& failure) {
  Failures& failures = failures_[key];
  ++failures.count;
  failures.last = failure;
  failures.parked = failures.count >= kMaxFailures ||
                    failure.code() == absl::StatusCode::kFailedPrecondition;
  return failures.parked;
}

void FailureLedger::Forget(const ArtifactKey& key) { failures_.erase(key); }

std::optional<absl::Status> FailureLedger::Parked(
    const ArtifactKey& key) const {
  const auto it = failures_.find(key);
  if (it == failures_.end() || !it->second.parked) return std::nullopt;
  const Failures& failures = it->second;
  return absl::Status(failures.last.code(),
                      absl::StrCat("not tried again after ", failures.count,
                                   " failure", failures.count == 1 ? "" : "s",
                                   ": ", failures.last.message()));
}

size_t FailureLedger::parked() const {
  return static_cast<size_t>(
      std::count_if(failures_.begin(), failures_.end(),
                    [](const auto& pair) { return pair.second.parked; }));
}

}  // namespace stoker
