#include "absl/status/status.h"
#include "loadtest/generator/client.h"
#include "loadtest/generator/lane.h"

namespace stoker::loadtest {
namespace {

// Tag of the first field, when it is error_message: field 1, length-delimited.
constexpr uint8_t kErrorMessageTag = 0x0a;

template <class Message>
grpc::Status Parse(const grpc::ByteBuffer& answer, Message* message) {
  grpc::ByteBuffer copy = answer;
  return grpc::SerializationTraits<Message>::Deserialize(&copy, message);
}

grpc::Status Checked(const inference::ModelInferResponse& answer) {
  const absl::Status checked = CheckAnswer(answer);
  if (checked.ok()) return grpc::Status::OK;
  return {grpc::StatusCode::DATA_LOSS, std::string(checked.message())};
}

// Fields come in the order of their numbers, and an empty one not at all.
bool StartsWithError(const grpc::ByteBuffer& answer) {
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok()) return true;
  for (const grpc::Slice& slice : slices) {
    if (slice.size() > 0) return *slice.begin() == kErrorMessageTag;
  }
  return false;
}

}  // namespace

grpc::Status CheckUnaryAnswer(const grpc::ByteBuffer& answer, bool check) {
  if (!check) return grpc::Status::OK;
  inference::ModelInferResponse message;
  const grpc::Status parsed = Parse(answer, &message);
  return parsed.ok() ? Checked(message) : parsed;
}

grpc::Status CheckStreamAnswer(const grpc::ByteBuffer& answer, bool check) {
  if (!check && !StartsWithError(answer)) return grpc::Status::OK;
  inference::ModelStreamInferResponse message;
  const grpc::Status parsed = Parse(answer, &message);
  if (!parsed.ok()) return parsed;
  if (!message.error_message().empty())
    return {grpc::StatusCode::UNKNOWN, message.error_message()};
  return check ? Checked(message.infer_response()) : grpc::Status::OK;
}

}  // namespace stoker::loadtest
