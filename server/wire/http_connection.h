// One peer's HTTP/1.1: its requests one after the other, also where it sends
// the next before the answer, and the bounds of both.
//
// Its requests may live on without it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/monotonic_time.h"
#include "wire/byte_stream.h"
#include "wire/http_call.h"
#include "wire/http_parser.h"
#include "wire/known_peer.h"
#include "wire/output_buffer.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/progress.h"
#include "wire/wire_metrics.h"

namespace stoker {

class HttpExchange;

class HttpConnection final : public PeerConnection, private HttpParser::Events {
 public:
  // The loop and the function outlive it.
  HttpConnection(WireLoop& loop, std::unique_ptr<ByteStream> stream,
                 PeerTicket peer, const MakeHttpHandler& make_handler);
  ~HttpConnection() override;

  // Makes them; it outlives what it makes.
  static MakeConnection Maker(MakeHttpHandler make_handler);

  void Begin() override;
  void OnReady(uint32_t events) override;
  void ShakeHands() override;
  bool Serve(absl::Duration slice) override;
  void Tick(MonotonicTime now) override;
  void Drain() override;
  void StopCalls() override;
  void HangUp() override;
  void HangUp(Hangup reason) override;
  bool idle() const override { return exchange_ == nullptr && !over_; }
  MonotonicTime last_heard() const override { return heard_; }

  // ---- for its request

  void Send(const HttpExchange& exchange, const HttpAnswer& answer);
  const std::shared_ptr<Peer>& peer() {
    return known_peer_.Get(peer_, *stream_);
  }

 private:
  bool OnHead(HttpHead head) override;
  bool OnBody(std::string_view bytes) override;
  void OnEnd() override;

  void Receive();
  void OnPeerEnded();
  // How many of the bytes it took; the others are for later.
  size_t Parse(std::string_view bytes);
  // False: it was answered otherwise.
  bool TakeExpectation(const HttpHead& head);
  // Ends with an answer that nobody's handler gives.
  void Fail(const HttpFault& fault);
  void WriteAnswer(const HttpAnswer& answer, bool with_body, bool keep_alive);
  void Touch();
  void Flush();
  void FinishAnswer();
  void Linger();
  void WatchSocket();
  // Whether bytes that come now are of a later request.
  bool Waits() const;
  void CheckTimes(MonotonicTime now);

  WireLoop& loop_;
  const std::unique_ptr<ByteStream> stream_;
  const PeerTicket peer_;
  KnownPeer known_peer_;
  const MakeHttpHandler& make_handler_;
  HttpParser parser_;
  std::shared_ptr<HttpExchange> exchange_;  // null: there is no request
  std::string pending_;                     // of the next requests
  size_t pending_begin_ = 0;
  bool busy_ = false;     // in the loop's queue
  bool shaking_ = false;  // in the queue of handshakes
  bool over_ = false;

  OutputBuffer output_;
  Progress taken_;                       // of it, by the peer
  std::optional<uint64_t> answered_at_;  // the output's `sent`, then it is over
  bool keep_alive_ = true;               // behind that answer
  bool deaf_ = false;                    // reads no requests any more
  bool peer_ended_ = false;              // and said so, behind its request
  bool ahead_ = false;  // something has come behind a request, or the end
  std::optional<MonotonicTime> lingering_since_;
  uint32_t watched_ = 0;

  const MonotonicTime born_;
  MonotonicTime heard_;
  // When the head that is arriving began, or would have to.
  std::optional<MonotonicTime> head_since_;
  MonotonicTime idle_since_;
  bool settled_ = false;  // the peer has spoken HTTP
  bool draining_ = false;
};

}  // namespace stoker
