#include "rpc/status_mapping.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

const std::vector<std::pair<absl::StatusCode, grpc::StatusCode>>& Codes() {
  static const auto* const codes =
      new std::vector<std::pair<absl::StatusCode, grpc::StatusCode>>{
          {absl::StatusCode::kOk, grpc::StatusCode::OK},
          {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
          {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
          {absl::StatusCode::kInvalidArgument,
           grpc::StatusCode::INVALID_ARGUMENT},
          {absl::StatusCode::kDeadlineExceeded,
           grpc::StatusCode::DEADLINE_EXCEEDED},
          {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
          {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
          {absl::StatusCode::kPermissionDenied,
           grpc::StatusCode::PERMISSION_DENIED},
          {absl::StatusCode::kResourceExhausted,
           grpc::StatusCode::RESOURCE_EXHAUSTED},
          {absl::StatusCode::kFailedPrecondition,
           grpc::StatusCode::FAILED_PRECONDITION},
          {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
          {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
          {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
          {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
          {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
          {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
          {absl::StatusCode::kUnauthenticated,
           grpc::StatusCode::UNAUTHENTICATED},
      };
  return *codes;
}

TEST(StatusMapping, EveryCode) {
  for (const auto& [code, expected] : Codes()) {
    const CallStatus status = ToCallStatus(absl::Status(code, "why"));
    EXPECT_EQ(static_cast<int>(status.code), expected);
    EXPECT_EQ(status.message, code == absl::StatusCode::kOk ? "" : "why");
  }
}

TEST(StatusMapping, CodesThatNobodyKnowsAreUnknown) {
  const auto strange = static_cast<absl::StatusCode>(1234);
  EXPECT_EQ(static_cast<int>(ToCallStatus(absl::Status(strange, "?")).code),
            grpc::StatusCode::UNKNOWN);
}

TEST(StatusMapping, LongMessagesAreCut) {
  const CallStatus status =
      ToCallStatus(absl::InternalError(std::string(100000, 'x')));
  EXPECT_LT(status.message.size(), 4096u);
  EXPECT_EQ(status.message.substr(0, 3), "xxx");
}

}  // namespace
}  // namespace stoker
