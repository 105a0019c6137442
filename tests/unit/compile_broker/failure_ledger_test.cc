#include "compile_broker/failure_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

using ::testing::HasSubstr;

ArtifactKey Key(const std::string& name) { return ArtifactKey({{"n", name}}); }

TEST(FailureLedgerTest, TheSecondFailureParks) {
  FailureLedger ledger;
  EXPECT_FALSE(ledger.Record(Key("a"), absl::InternalError("first")));
  EXPECT_EQ(ledger.Parked(Key("a")), std::nullopt);
  EXPECT_EQ(ledger.parked(), 0u);
  EXPECT_TRUE(ledger.Record(Key("a"), absl::DeadlineExceededError("second")));
  const std::optional<absl::Status> parked = ledger.Parked(Key("a"));
  ASSERT_TRUE(parked.has_value());
  EXPECT_EQ(parked->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(parked->message()), HasSubstr("2 failures: second"));
  EXPECT_EQ(ledger.Parked(Key("b")), std::nullopt);
  EXPECT_EQ(ledger.parked(), 1u);
}

TEST(FailureLedgerTest, ARefusalParksAtOnce) {
  FailureLedger ledger;
  EXPECT_TRUE(ledger.Record(Key("a"), absl::FailedPreconditionError("no")));
  EXPECT_THAT(std::string(ledger.Parked(Key("a"))->message()),
              HasSubstr("1 failure: no"));
}

TEST(FailureLedgerTest, ForgettingStartsOver) {
  FailureLedger ledger;
  ledger.Record(Key("a"), absl::InternalError("x"));
  ledger.Forget(Key("a"));
  EXPECT_FALSE(ledger.Record(Key("a"), absl::InternalError("x")));
}

}  // namespace
}  // namespace stoker
