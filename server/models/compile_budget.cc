#include "models/compile_budget.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stoker {

void CompileBudget::Spend(absl::Duration compile) {
  last_ = compile;
  spent_ += compile;
}

std::optional<std::string> CompileBudget::Exceeded() const {
  if (spent_ + last_ <= limit_) return std::nullopt;
  return absl::StrFormat(
      "not compiled: %.0f of budget_seconds %.0f are spent, and a compile "
      "takes about %.0f; the next start goes on here",
      absl::ToDoubleSeconds(spent_), absl::ToDoubleSeconds(limit_),
      absl::ToDoubleSeconds(last_));
}

std::vector<std::string> NotPayingBack(
    const absl::StatusOr<std::vector<double>>& requests, int64_t within,
    size_t buckets) {
  std::vector<std::string> reasons(buckets);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    if (!requests.ok()) {
      reasons[bucket] =
          absl::StrCat("not compiled: pays_back_within is ", within, ", and ",
                       requests.status().message());
    } else if (std::isinf((*requests)[bucket])) {
      reasons[bucket] =
          "not compiled: by the recorded traffic it would never pay back";
    } else if ((*requests)[bucket] > static_cast<double>(within)) {
      reasons[bucket] = absl::StrFormat(
          "not compiled: by the recorded traffic it would pay back after %.0f "
          "requests, and pays_back_within is %d",
          (*requests)[bucket], within);
    }
  }
  return reasons;
}

}  // namespace stoker
