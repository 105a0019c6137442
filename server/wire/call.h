// One RPC, of any method: what arrives and leaves as bytes, and the events that
// its transport reports about it.
//
// Operations may be started from any thread; a handler's methods are called on
// the call's loop, one at a time, and never from within an operation: one may
// be started under a lock that the handler's methods take.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/monotonic_time.h"
#include "wire/byte_chain.h"
#include "wire/peer.h"

namespace stoker {

// What a call ends with.
struct CallStatus {
  absl::StatusCode code = absl::StatusCode::kOk;  // has gRPC's number
  std::string message;
  std::string details;    // a serialised google.rpc.Status, or nothing
  bool too_long = false;  // a message was longer than any may be

  bool ok() const { return code == absl::StatusCode::kOk; }
};

// What a method does with one of its calls. It must finish the call, once, also
// after OnCancel; the call owns it and keeps it until the transport is through
// with both.
class CallHandler {
 public:
  virtual ~CallHandler() = default;

  // The call has arrived. Comes first.
  virtual void OnStart() = 0;
  // The next message takes that much memory, which is not taken yet: all of it
  // when its length is known, piece by piece when it comes compressed. May be
  // called before the message is asked for, never after the call was finished.
  // What is returned otherwise than OK ends the call.
  virtual CallStatus Reserve(size_t /*bytes*/) { return {}; }
  // What a Read brought.
  virtual void OnMessage(const ByteChain& message) = 0;
  // A Read brought nothing: the client sends no more, or has gone.
  virtual void OnEndOfMessages() = 0;
  // A Write is over; `ok`: its bytes are on their way.
  virtual void OnWritten(bool /*ok*/) {}
  // The client has gone, or its deadline has passed.
  virtual void OnCancel() {}
  // The server stops and waits for this call.
  virtual void OnStop() {}
  // Asked several times a second while the call is open. What is returned
  // otherwise than OK ends it, behind a message that is being written unless
  // the client doesn't take that; then it is as if the client had gone.
  virtual CallStatus MayGoOn() { return {}; }
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  virtual ~Call() = default;

  // "/inference.GRPCInferenceService/ModelInfer"
  virtual const std::string& method() const = 0;
  // The client's; infinite when it has none.
  virtual MonotonicTime deadline() const = 0;
  // The value of this header, in lower case, that the client sent; null: it
  // sent none. The first of several.
  virtual const std::string* FindHeader(std::string_view name) const = 0;
  // Who is at the other end. While its handler is made, or is told of a
  // message.
  virtual std::shared_ptr<Peer> peer() = 0;

  // One read at a time. The first lets the client take its time, the second
  // finishes the call with DEADLINE_EXCEEDED when the stall limit passes before
  // the message is whole.
  virtual void Read() = 0;
  virtual void ReadSoon() = 0;
  // One Write at a time, none after Finish or Answer.
  virtual void Write(const ByteChain& message) = 0;
  // Ends the call; of several, the first counts. Not while a Write is under
  // way.
  virtual void Finish(const CallStatus& status) = 0;
  // Writes a message and ends the call with OK.
  virtual void Answer(const ByteChain& message) = 0;
};

// The handler of a call that has just arrived, by its method; null: there is no
// such method. On any loop.
using MakeHandler = std::function<std::unique_ptr<CallHandler>(Call& call)>;

}  // namespace stoker
