// Whether a bucket's compile is worth asking for, by what model.yaml allows:
// decisions on numbers alone. The answers are sentences for people; that there
// is one is the decision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

// `budget_seconds`: what the compiles of one start may take. Not thread-safe.
class CompileBudget {
 public:
  explicit CompileBudget(absl::Duration limit) : limit_(limit) {}

  // A compile was made; the next takes about as long.
  void Spend(absl::Duration compile);
  // One failed, which says nothing of the next, but took its time.
  void SpendInVain(absl::Duration spent) { spent_ += spent; }

  // Why the next compile is left; nullopt: it isn't.
  std::optional<std::string> Exceeded() const;

 private:
  const absl::Duration limit_;
  absl::Duration spent_ = absl::ZeroDuration();
  absl::Duration last_ = absl::ZeroDuration();
};

// `pays_back_within`: by bucket, why its compile is left; empty: it isn't.
// `requests`: how many of the model it takes until the compile has paid back,
// by bucket (planning/bucket_choice.h), or why that isn't known.
std::vector<std::string> NotPayingBack(
    const absl::StatusOr<std::vector<double>>& requests, int64_t within,
    size_t buckets);

}  // namespace stoker
