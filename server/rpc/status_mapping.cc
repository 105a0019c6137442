#include "rpc/status_mapping.h"

#include <string>

#include "absl/strings/cord.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/utf8.h"
#include "rpc_status.pb.h"

namespace stoker {
namespace {

constexpr size_t kMaxMessageBytes = 2048;

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

}  // namespace

CallStatus ToCallStatus(const absl::Status& status) {
  if (status.ok()) return {};
  // Canonical codes have gRPC's numbers; code() maps all others to kUnknown.
  const absl::StatusCode code = status.code();
  std::string message = Excerpt(Std(status.message()), kMaxMessageBytes);
  const absl::optional<absl::Cord> hint = status.GetPayload(kRetryInfoUrl);
  if (!hint.has_value()) return {code, message, ""};
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(ValidUtf8(message));
  google::protobuf::Any& detail = *details.add_details();
  detail.set_type_url(kRetryInfoUrl);
  detail.set_value(std::string(*hint));
  return {code, message, details.SerializeAsString()};
}

void SetRetryHint(absl::Status& status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  absl::Duration nanoseconds;
  info.mutable_retry_delay()->set_seconds(
      absl::IDivDuration(delay, absl::Seconds(1), &nanoseconds));
  info.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(nanoseconds)));
  status.SetPayload(kRetryInfoUrl, absl::Cord(info.SerializeAsString()));
}

CallStatus NoMessageStatus() {
  return {absl::StatusCode::kInvalidArgument, "expected one message, got none",
          ""};
}

}  // namespace stoker
