#include "metrics/outcome.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(OutcomeTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int code = 0; code <= 16; ++code) {
    names.insert(OutcomeName(static_cast<absl::StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(OutcomeName(absl::StatusCode::kOk), "ok");
  EXPECT_EQ(OutcomeName(absl::StatusCode::kInvalidArgument),
            "invalid_argument");
}

TEST(OutcomeTest, CodesThatNobodyKnowsAreUnknown) {
  EXPECT_EQ(OutcomeName(static_cast<absl::StatusCode>(1234)), "unknown");
}

}  // namespace
}  // namespace stoker
