// Methods that take one message and have their answer at hand: metadata,
// health, statistics. Answered on the call's loop, so they must not block.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "rpc/message_bytes.h"
#include "rpc/method_table.h"

namespace stoker {

// INVALID_ARGUMENT: the bytes are no such message, or more than 1 MiB, which no
// request for these methods needs.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes,
                          google::protobuf::Message& message);
grpc::ByteBuffer SerialisedMessage(const google::protobuf::Message& message);

// `answer` takes the request's bytes and returns the answer's.
void AddUnaryBytes(
    MethodTable& methods, const std::string& path,
    std::function<absl::StatusOr<grpc::ByteBuffer>(const grpc::ByteBuffer&)>
        answer);

// `answer` is called with (const Request&, Response&) and returns a Status.
template <typename Request, typename Response, typename Function>
void AddUnary(MethodTable& methods, const std::string& path, Function answer) {
  AddUnaryBytes(methods, path,
                [answer = std::move(answer)](const grpc::ByteBuffer& bytes)
                    -> absl::StatusOr<grpc::ByteBuffer> {
                  Request request;
                  RETURN_IF_ERROR(ParseMessage(bytes, request));
                  Response response;
                  RETURN_IF_ERROR(answer(request, response));
                  return SerialisedMessage(response);
                });
}

}  // namespace stoker
