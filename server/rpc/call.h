// One RPC, of any method: what arrives and leaves as bytes, and the events that
// gRPC reports about it.
//
// The server uses gRPC's generic asynchronous interface for everything. A call
// then begins with its headers, before any byte of its message is taken, and
// one thread can do all of gRPC's work: with the callback interface two threads
// and an executor pass each request on to each other, which costs 13 us of the
// 40 us that an empty request takes, and a fifth of the throughput.
//
// Operations may be started from any thread; a handler's methods are called on
// the call's loop, one at a time.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/monotonic_time.h"

namespace stoker {

class CallLoop;

// What a method does with one of its calls. It must finish the call, once, also
// after OnCancel; the call owns it and keeps it until gRPC is through with
// both.
class CallHandler {
 public:
  virtual ~CallHandler() = default;

  // The call has arrived. Comes first.
  virtual void OnStart() = 0;
  // What a Read brought.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // A Read brought nothing: the client sends no more, or has gone.
  virtual void OnEndOfMessages() = 0;
  // A Write is over; `ok`: its bytes are on their way.
  virtual void OnWritten(bool /*ok*/) {}
  // The client has gone, or its deadline has passed.
  virtual void OnCancel() {}
  // The server stops and waits for this call.
  virtual void OnStop() {}
};

// What a completion queue's tags are.
class LoopEvent {
 public:
  virtual void Happen(bool ok) = 0;
  void* tag() { return this; }

 protected:
  ~LoopEvent() = default;
};

class Call final : public std::enable_shared_from_this<Call> {
 public:
  // Waits for a call on the loop's queue, which then arrives at its handler.
  static void Await(CallLoop& loop);

  // For Await.
  explicit Call(CallLoop& loop);
  ~Call();

  // "/inference.GRPCInferenceService/ModelInfer"
  const std::string& method() const { return context_.method(); }
  // The client's; infinite when it has none.
  MonotonicTime deadline() const;
  // Whether the client sent this header.
  bool HasHeader(std::string_view name, std::string_view value) const;

  // One read at a time. The first lets the client take its time, the second
  // finishes the call with DEADLINE_EXCEEDED when the stall limit passes before
  // the message is whole.
  void Read();
  void ReadSoon();
  // One Write at a time, none after Finish or Answer.
  void Write(const grpc::ByteBuffer& message);
  // Ends the call; of several, the first counts. Not while a Write is under
  // way.
  void Finish(const grpc::Status& status);
  // Writes a message and ends the call with OK.
  void Answer(const grpc::ByteBuffer& message);

 private:
  friend class CallLoop;

  // Holds the call until it has happened.
  class Event final : public LoopEvent {
   public:
    Event(Call& call, void (Call::*reaction)(bool ok))
        : call_(call), reaction_(reaction) {}
    void Hold() { held_ = call_.shared_from_this(); }
    void Drop() { held_.reset(); }
    void Happen(bool ok) override {
      const std::shared_ptr<Call> held = std::move(held_);
      (call_.*reaction_)(ok);
    }

   private:
    Call& call_;
    void (Call::*const reaction_)(bool ok);
    std::shared_ptr<Call> held_;
  };

  void OnArrival(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);
  void OnStop();
  // Ends the call when the client keeps it waiting for too long; returns
  // whether it did.
  bool EndIfStalled(MonotonicTime now);

  bool BeginToFinish() { return !finishing_.exchange(true); }
  int64_t StallsAt() const;

  CallLoop& loop_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  std::unique_ptr<CallHandler> handler_;
  grpc::ByteBuffer incoming_;

  Event arrival_{*this, &Call::OnArrival};
  Event read_{*this, &Call::OnRead};
  Event written_{*this, &Call::OnWritten};
  Event finished_{*this, &Call::OnFinished};
  Event done_{*this, &Call::OnDone};

  std::atomic<bool> finishing_ = false;
  // When the client must have sent or taken something; in ns of the loop's
  // clock.
  std::atomic<int64_t> read_due_ = INT64_MAX;
  std::atomic<int64_t> write_due_ = INT64_MAX;

  // Links of the loop's list of open calls; on its thread only.
  Call* previous_ = nullptr;
  Call* next_ = nullptr;
  bool open_ = false;
};

}  // namespace stoker
