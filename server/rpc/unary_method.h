// Methods that take one message and give one answer: metadata, health,
// statistics, loads. They begin on the call's loop, so they must not block.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "rpc/admission.h"
#include "rpc/message_bytes.h"
#include "rpc/method_table.h"
#include "wire/byte_chain.h"

namespace stoker {

// No request for these methods needs more, but for large ones.
inline constexpr size_t kSmallMessageBytes = 1 << 20;
// INVALID_ARGUMENT: the bytes are no such message, or more than that.
absl::Status ParseMessage(const ByteChain& bytes,
                          google::protobuf::Message& message);
// What a handler's Reserve says that takes no larger messages.
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

// The same for messages of up to `max_bytes`, for which memory is taken of
// `admission`, twice as much as they have: they are copied once. `begin` is
// given what holds it, until the last copy of that is gone, and may let go of
// the bytes before it answers.
using HeldMemory = std::shared_ptr<const void>;
void AddLargeUnaryLater(
    MethodTable& methods, const std::string& path, Admission& admission,
    size_t max_bytes,
    std::function<void(const ByteChain&, HeldMemory, AnswerLater)> begin);

}  // namespace stoker
