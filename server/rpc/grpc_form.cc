#include "rpc/grpc_form.h"

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

// What is parsed, and copied together, without another thread: less than a
// millisecond of work.
constexpr size_t kQuickParse = 64 << 10;
constexpr size_t kQuickJoin = 1 << 20;

}  // namespace

absl::Status GrpcForm::Scan() {
  request_.Scan();
  if (!request_.has_too_many_fields()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "expected at most ", RequestReader::kMaxFields,
      " inputs, outputs, parameters and texts in a message, got more"));
}

bool GrpcForm::TakesLong() const {
  const MessageBytes& bytes = request_.bytes();
  return request_.bytes_to_parse() > kQuickParse ||
         (bytes.size() > kQuickJoin &&
          bytes.Contiguous(0, bytes.size()) == nullptr);
}

absl::Status GrpcForm::Parse() {
  if (request_.Parse()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a serialised inference.ModelInferRequest, got ",
                   request_.bytes().size(), " bytes that are none"));
}

}  // namespace stoker
