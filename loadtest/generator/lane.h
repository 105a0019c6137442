// A way to have requests under way on one connection: unary calls side by
// side, or the messages of one stream. The caller runs the completion queue and
// hands each tag, an Event*, back through OnEvent.
//
// Send and Cancel may be called from any thread; OnEvent from one thread at a
// time. A lane lives until its queue is drained.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "loadtest/generator/recorder.h"

namespace stoker::loadtest {

// What a completion queue's tag points to.
class Event {
 public:
  virtual ~Event() = default;
  virtual void OnEvent(bool ok) = 0;
};

class Lane {
 public:
  struct Options {
    absl::Duration timeout;      // gRPC deadline of a unary call; 0: none
    bool check_answers = false;  // parse each and check its sizes
  };
  // Called on the completion thread, once for each Send, with no lock held. It
  // may Send again.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnOutcome(Lane& lane, Outcome outcome) = 0;
  };

  // What a lane is made of. The queue and the listener outlive it.
  struct Wiring {
    std::shared_ptr<grpc::Channel> channel;
    grpc::CompletionQueue& queue;
    Listener& listener;
    Options options;
  };

  virtual ~Lane() = default;
  // `message` is a serialised ModelInferRequest and is not copied.
  virtual void Send(const grpc::ByteBuffer& message, int64_t intended_ns) = 0;
  // Ends what is under way with CANCELLED. Nothing may be sent any more.
  virtual void Cancel() = 0;
  // Ends a stream in good order, behind what is under way. Nothing may be sent
  // any more.
  virtual void Close() = 0;
  // Whether the completion queue will hear of this lane no more.
  virtual bool idle() = 0;
};

std::unique_ptr<Lane> MakeUnaryLane(const Lane::Wiring& wiring);

// Answers are taken to come in the order of the requests. When the stream ends,
// what was under way ends with its status, and the next Send opens a new one.
std::unique_ptr<Lane> MakeStreamLane(const Lane::Wiring& wiring);

// The outcome of an answer that came: reads it as far as `check` asks for.
grpc::Status CheckUnaryAnswer(const grpc::ByteBuffer& answer, bool check);
// Of one message of a stream: an error_message is UNKNOWN, as a stream carries
// no code.
grpc::Status CheckStreamAnswer(const grpc::ByteBuffer& answer, bool check);

}  // namespace stoker::loadtest
