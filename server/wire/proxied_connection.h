// A connection whose PROXY header hasn't come: who is at its other end is not
// known. When the header is whole, another takes the socket, and its place.
//
// Used on its loop's thread only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/file_descriptor.h"
#include "base/monotonic_time.h"
#include "wire/ip_address.h"
#include "wire/loop.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/protocol.h"
#include "wire/proxy_header.h"

namespace stoker {

class ProxiedConnection final : public PeerConnection {
 public:
  // `proxy`: who connected, and may send such a header. `ticket` counts the
  // connection, but for no address. What is passed by reference outlives it,
  // and whatever takes its place.
  ProxiedConnection(WireLoop& loop, FileDescriptor socket, IpAddress proxy,
                    PeerTicket ticket, Peers& peers, const Protocol& protocol);
  ~ProxiedConnection() override;

  void Begin() override;
  void OnReady(uint32_t events) override;
  void ShakeHands() override {}
  bool Serve(absl::Duration) override { return false; }
  void Tick(MonotonicTime now) override;
  void Drain() override { HangUp(); }
  void StopCalls() override {}
  void HangUp() override;
  void HangUp(Hangup reason) override;

  bool idle() const override { return !over_; }
  MonotonicTime last_heard() const override { return heard_; }

 private:
  // Takes `size` bytes from the socket that it is known to have.
  void Consume(size_t size);
  void Refuse(const absl::Status& why);
  void GiveWay(const ProxyHeader& header);

  WireLoop& loop_;
  FileDescriptor socket_;
  const IpAddress proxy_;
  const PeerTicket ticket_;
  Peers& peers_;
  const Protocol& protocol_;
  std::string header_;  // what has come of it
  bool over_ = false;
  const MonotonicTime born_;
  MonotonicTime heard_;
};

}  // namespace stoker
