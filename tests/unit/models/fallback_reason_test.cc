#include "models/fallback_reason.h"

#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(FallbackReasonTest, TextsBeginWithTheNameWhereThereIsOne) {
  EXPECT_EQ(FallbackText(FallbackReason::kPayback, "too dear"),
            "payback: too dear");
  EXPECT_EQ(FallbackText(FallbackReason::kDisabled, "model.yaml says so"),
            "model.yaml says so");
}

TEST(FallbackReasonTest, OfCompileErrors) {
  EXPECT_EQ(ReasonOfCompileError(absl::UnavailableError("")),
            FallbackReason::kNoCompiler);
  EXPECT_EQ(ReasonOfCompileError(absl::DeadlineExceededError("")),
            FallbackReason::kTimeout);
  EXPECT_EQ(ReasonOfCompileError(absl::ResourceExhaustedError("")),
            FallbackReason::kMemory);
  EXPECT_EQ(ReasonOfCompileError(absl::FailedPreconditionError("")),
            FallbackReason::kRefused);
  EXPECT_EQ(ReasonOfCompileError(absl::InternalError("")),
            FallbackReason::kCompile);
}

TEST(FallbackReasonTest, OfVerdicts) {
  EXPECT_EQ(ReasonOfRefusal("profit"), FallbackReason::kProfit);
  EXPECT_EQ(ReasonOfRefusal("parity"), FallbackReason::kParity);
}

}  // namespace
}  // namespace stoker
