// Methods that take one message and give one answer: metadata, health,
// statistics, loads. They begin on the call's loop, so they must not block.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "rpc/message_bytes.h"
#include "rpc/method_table.h"
#include "wire/byte_chain.h"

namespace stoker {

// INVALID_ARGUMENT: the bytes are no such message, or more than 1 MiB, which no
// request for these methods needs.
absl::Status ParseMessage(const ByteChain& bytes,
                          google::protobuf::Message& message);
// What a handler's Reserve says that takes no larger messages than that.
CallStatus SmallMessage(size_t bytes);
ByteChain SerialisedMessage(const google::protobuf::Message& message);

// `answer` takes the request's bytes and returns the answer's.
void AddUnaryBytes(
    MethodTable& methods, const std::string& path,
    std::function<absl::StatusOr<ByteChain>(const ByteChain&)> answer);

// `answer` is called with (const Request&, Response&) and returns a Status.
template <typename Request, typename Response, typename Function>
void AddUnary(MethodTable& methods, const std::string& path, Function answer) {
  AddUnaryBytes(methods, path,
                [answer = std::move(answer)](
                    const ByteChain& bytes) -> absl::StatusOr<ByteChain> {
                  Request request;
                  RETURN_IF_ERROR(ParseMessage(bytes, request));
                  Response response;
                  RETURN_IF_ERROR(answer(request, response));
                  return SerialisedMessage(response);
                });
}

// The same where the answer isn't at hand: `begin` is called with the request's
// bytes and a function that takes the answer, once, at any time on any thread.
// A client that goes, or a server that stops, ends the call before.
using AnswerLater = std::function<void(absl::StatusOr<ByteChain>)>;
void AddUnaryLater(MethodTable& methods, const std::string& path,
                   std::function<void(const ByteChain&, AnswerLater)> begin);

}  // namespace stoker
