#include "rpc/http_answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc_status.pb.h"

namespace stoker {
namespace {

int HttpStatus(const CallStatus& status) {
  switch (status.code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      // Without a time to come back it never fits.
      return status.details.empty() ? 413 : 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// Whole seconds; 0: nobody says.
int64_t RetrySeconds(const CallStatus& status) {
  google::rpc::Status details;
  if (status.details.empty() || !details.ParseFromString(status.details)) {
    return 0;
  }
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::RetryInfo info;
    if (!absl::EndsWith(detail.type_url(), "google.rpc.RetryInfo") ||
        !info.ParseFromString(detail.value())) {
      continue;
    }
    return std::max<int64_t>(
        1, info.retry_delay().seconds() + (info.retry_delay().nanos() > 0));
  }
  return 0;
}

}  // namespace

HttpAnswer ErrorAnswer(const CallStatus& status) {
  HttpAnswer answer;
  answer.status = HttpStatus(status);
  answer.body = HttpErrorBody(status.message);
  if (answer.status == 401) answer.headers = "WWW-Authenticate: Bearer\r\n";
  if (const int64_t seconds = RetrySeconds(status); seconds > 0) {
    answer.headers = absl::StrCat("Retry-After: ", seconds, "\r\n");
  }
  return answer;
}

Encoding WantedCoding(const HttpHead& head) {
  const std::string* const accepted = head.Find("accept-encoding");
  if (accepted == nullptr) return Encoding::kIdentity;
  const absl::string_view name = absl::StripAsciiWhitespace(*accepted);
  if (absl::EqualsIgnoreCase(name, "gzip")) return Encoding::kGzip;
  if (absl::EqualsIgnoreCase(name, "deflate")) return Encoding::kDeflate;
  return Encoding::kIdentity;
}

}  // namespace stoker
