// A request on its connection, from its head to the last byte of its answer: an
// HttpCall, and the body that comes for it.
//
// Answer may be called from any thread; all else is called on its loop's
// thread. It holds itself until its handler has answered.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "wire/http_body.h"
#include "wire/http_call.h"
#include "wire/progress.h"

namespace stoker {

class HttpConnection;
class WireLoop;

class HttpExchange final : public HttpCall {
 public:
  HttpExchange(WireLoop& loop, HttpConnection& connection, HttpHead head);
  ~HttpExchange() override;

  // HttpCall.
  const HttpHead& head() const override { return head_; }
  std::shared_ptr<Peer> peer() override;
  void Answer(const HttpAnswer& answer) override;

  // ---- for its connection

  // False: it was answered, and the body isn't wanted.
  bool Begin(const MakeHttpHandler& make_handler);
  bool OnBody(std::string_view bytes);
  void OnEnd();
  // Undoes a part of the body's compression. True: there is more to undo.
  bool Step();
  void Tick(MonotonicTime now);
  // The connection goes.
  void OnClosed();
  void Stop();

  bool answered() const { return answered_; }
  // Bytes of the body that are still to come; 0 where nobody knows.
  size_t missing() const { return body_.missing(); }
  // All of the request is here.
  bool arrived() const { return arrived_; }

 private:
  void StartAnswer(const HttpAnswer& answer);
  CallStatus ReserveFor(size_t bytes) { return handler_->Reserve(bytes); }
  // The body is none; the handler says so.
  void Refuse(const CallStatus& why);
  void GiveBody();

  WireLoop& loop_;
  HttpConnection* connection_;  // null once that is over
  const HttpHead head_;
  std::shared_ptr<HttpExchange> self_;  // until it is answered
  std::unique_ptr<HttpHandler> handler_;
  HttpBody body_;
  Progress arriving_;
  bool arrived_ = false;
  bool given_ = false;  // the handler has it
  bool answered_ = false;
  std::atomic<bool> answering_ = false;  // the handler has begun to
};

}  // namespace stoker
