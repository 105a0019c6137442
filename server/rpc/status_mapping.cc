#include "rpc/status_mapping.h"

#include <string>

#include "absl/strings/ascii.h"
#include "base/absl_view.h"
#include "rpc/error_text.h"

namespace stoker {
namespace {

constexpr size_t kMaxMessageBytes = 2048;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // absl's canonical codes have gRPC's numbers; code() maps all others to
  // kUnknown.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Excerpt(Std(status.message()), kMaxMessageBytes));
}

grpc::Status NoMessageStatus() {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                      "expected one message, got none");
}

std::string OutcomeName(absl::StatusCode code) {
  const std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "unknown" : absl::AsciiStrToLower(name);
}

}  // namespace stoker
