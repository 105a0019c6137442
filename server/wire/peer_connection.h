// One peer of a loop, whatever protocol it speaks: what the loop has to know of
// it.
//
// Used on its loop's thread only. Ends by HangUp, after which the loop deletes
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "wire/byte_stream.h"
#include "wire/peers.h"
#include "wire/wire_metrics.h"

namespace stoker {

class WireLoop;

// What a descriptor's events are told to.
class EventSource {
 public:
  virtual void OnReady(uint32_t events) = 0;

 protected:
  ~EventSource() = default;
};

class PeerConnection : public EventSource {
 public:
  virtual ~PeerConnection() = default;

  virtual void Begin() = 0;
  // Its turn has come: goes on with its handshake.
  virtual void ShakeHands() = 0;
  // Does what was put off, for at most that long, and sends what came of it.
  // True: there is more to do.
  virtual bool Serve(absl::Duration slice) = 0;
  virtual void Tick(MonotonicTime now) = 0;
  // Takes no more calls; ends when the last is over.
  virtual void Drain() = 0;
  // The server stops.
  virtual void StopCalls() = 0;
  // At once; with a reason it is counted.
  virtual void HangUp() = 0;
  virtual void HangUp(Hangup reason) = 0;

  // Whether it has no calls.
  virtual bool idle() const = 0;
  virtual MonotonicTime last_heard() const = 0;
};

// What speaks a protocol over the streams that one address accepts. Any thread.
using MakeConnection = std::function<std::unique_ptr<PeerConnection>(
    WireLoop& loop, std::unique_ptr<ByteStream> stream, PeerTicket peer)>;

}  // namespace stoker
