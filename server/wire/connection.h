// One peer's HTTP/2: its frames in and out, its streams, and the bounds of
// both.
//
// Its calls may live on without it.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/monotonic_time.h"
#include "base/token_bucket.h"
#include "wire/byte_stream.h"
#include "wire/frame_meter.h"
#include "wire/frame_rules.h"
#include "wire/known_peer.h"
#include "wire/loop.h"
#include "wire/message_assembler.h"
#include "wire/output_buffer.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/progress.h"
#include "wire/wire_metrics.h"

namespace stoker {

class StreamCall;

class Connection final : public PeerConnection {
 public:
  // The loop outlives it.
  Connection(WireLoop& loop, std::unique_ptr<ByteStream> stream,
             PeerTicket peer);
  ~Connection() override;

  // Of a loop whose calls `loop.make_handler()` makes handlers for.
  static std::unique_ptr<PeerConnection> Make(
      WireLoop& loop, std::unique_ptr<ByteStream> stream, PeerTicket peer);

  void Begin() override;
  void OnReady(uint32_t events) override;
  void ShakeHands() override;
  bool Serve(absl::Duration slice) override;
  void Tick(MonotonicTime now) override;
  void Drain() override;
  void StopCalls() override;
  void HangUp() override;
  void HangUp(Hangup reason) override;

  bool idle() const override { return calls_.empty() && !over_; }
  MonotonicTime last_heard() const override { return heard_; }

  // ---- for its calls

  WireLoop& loop() { return loop_; }
  nghttp2_session* session() { return session_; }
  // Something happened to the call that its handler is to be told.
  void Deliver(std::shared_ptr<StreamCall> call);
  // Something is to be sent.
  void Touch();
  // Calls OnSent when what is in the output now has been sent, or never will.
  void WhenSent(std::shared_ptr<StreamCall> call);
  OutputBuffer& output() { return output_; }
  // Whether more answers may be put into the output.
  bool HasRoom() const;
  // What a new call's client may send at once.
  uint32_t first_window() const;
  // A message of that size has come: may as large ones come at once from now
  // on.
  void OpenWiderFor(size_t message_bytes);
  const std::shared_ptr<Peer>& peer() {
    return known_peer_.Get(peer_, *stream_);
  }
  // A message has passed: the peer may send some more frames that move nothing.
  void Earn();

 private:
  friend class SessionCallbacks;
  struct Sending {
    uint64_t until;  // the output's `sent`
    std::shared_ptr<StreamCall> call;
  };

  // Whether the peer may go on after a frame like this.
  void CountFrame(const FrameMeter::Head& head);
  // What the session reports.
  // Of a request, or trailers.
  void OnHeadersBegin(const nghttp2_frame& frame);
  // False: the connection can't go on.
  bool OnHeader(const nghttp2_frame& frame, std::string_view name,
                std::string_view value);
  void OnFrame(const nghttp2_frame& frame);
  void OnData(int32_t stream, std::string_view bytes);
  void OnFrameSent(const nghttp2_frame& frame);
  void OnStreamClosed(int32_t stream);

  StreamCall* CallOf(int32_t stream) const;
  void SendSettings();
  void Receive();
  MessageAssembler::Room RoomForData() const;
  // False: nothing more is to be received now.
  bool Take(std::string_view bytes);
  // Whether there is room for what is not whole.
  bool KeepUnfinished();
  void Flush();
  bool FillOutput();
  void TellOfSent();
  void WatchSocket();
  void AskToCalmDown(Hangup reason);
  // Why it ends when nghttp2 says that it can't go on.
  Hangup ReasonOf(int error) const;
  void CheckTimes(MonotonicTime now);
  void CheckAge(MonotonicTime now);
  void FinishDrain();

  WireLoop& loop_;
  const std::unique_ptr<ByteStream> stream_;
  const PeerTicket peer_;
  KnownPeer known_peer_;
  nghttp2_session* session_ = nullptr;
  absl::flat_hash_map<int32_t, std::shared_ptr<StreamCall>> calls_;
  std::deque<std::shared_ptr<StreamCall>> deliveries_;
  bool busy_ = false;     // in the loop's queue
  bool shaking_ = false;  // in the queue of handshakes
  bool over_ = false;

  OutputBuffer output_;
  std::deque<Sending> sending_;
  Progress taken_;  // of the output, by the peer
  uint32_t watched_ = 0;
  uint32_t window_;  // the first of new calls, as the peer was told

  FrameMeter frames_;
  size_t list_bytes_ = 0;  // of the headers that are being unfolded
  size_t kept_ = 0;        // of the loop's, for those that are not whole
  Progress whole_;         // of those, by the peer
  FrameRules frame_rules_;
  TokenBucket useless_;
  TokenBucket resets_;  // by the peer, or because of it

  const MonotonicTime born_;
  MonotonicTime heard_;
  MonotonicTime idle_since_;
  bool settled_ = false;  // the peer has spoken HTTP/2
  std::optional<MonotonicTime> pinged_;
  std::optional<MonotonicTime> draining_since_;
  bool drained_ = false;  // the second GOAWAY is on its way
  bool too_old_ = false;
  std::optional<Hangup> reason_;  // when the session ends itself
};

}  // namespace stoker
