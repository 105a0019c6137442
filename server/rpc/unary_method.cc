#include "rpc/unary_method.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

using Answer =
    std::function<absl::StatusOr<grpc::ByteBuffer>(const grpc::ByteBuffer&)>;

class UnaryHandler final : public CallHandler {
 public:
  UnaryHandler(Call& call, const Answer& answer)
      : call_(call), answer_(answer) {}

  void OnStart() override { call_.ReadSoon(); }

  void OnMessage(const grpc::ByteBuffer& message) override {
    const absl::StatusOr<grpc::ByteBuffer> answer = answer_(message);
    if (answer.ok()) {
      call_.Answer(*answer);
    } else {
      call_.Finish(ToGrpcStatus(answer.status()));
    }
  }

  void OnEndOfMessages() override { call_.Finish(NoMessageStatus()); }

 private:
  Call& call_;
  const Answer& answer_;
};

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes,
                          google::protobuf::Message& message) {
  const size_t size = bytes.Length();
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMaxBytes, " bytes of ",
                     message.GetTypeName(), ", got ", size));
  }
  const MessageBytes slices(bytes);
  MessageStream stream(slices, 0, size);
  if (message.ParseFromBoundedZeroCopyStream(&stream, static_cast<int>(size))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a serialised ", message.GetTypeName(), ", got ",
                   size, " bytes that are none"));
}

grpc::ByteBuffer SerialisedMessage(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

void AddUnaryBytes(MethodTable& methods, const std::string& path,
                   Answer answer) {
  // The table owns the function and outlives the calls.
  methods.Add(path, [answer = std::move(answer)](Call& call) {
    return std::make_unique<UnaryHandler>(call, answer);
  });
}

}  // namespace stoker
