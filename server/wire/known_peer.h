// A connection's peer, made when somebody first asks for it: most servers never
// do.
//
// Used on the connection's loop only.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>

#include "wire/byte_stream.h"
#include "wire/ip_address.h"
#include "wire/peer.h"
#include "wire/peers.h"

namespace stoker {

class KnownPeer {
 public:
  // Once the handshake is over: its names come from there.
  const std::shared_ptr<Peer>& Get(const PeerTicket& ticket,
                                   const ByteStream& stream) {
    if (peer_ == nullptr) {
      peer_ = std::make_shared<Peer>();
      peer_->address = ticket.peer();
      peer_->within = ticket.within();
      peer_->local = IsLocal(ticket.peer());
      peer_->names = stream.PeerNames();
    }
    return peer_;
  }

 private:
  // Unix sockets have no address.
  static bool IsLocal(const std::string& address) {
    if (address.empty()) return true;
    const int family = address.find(':') != address.npos ? AF_INET6 : AF_INET;
    const auto parsed = IpAddress::Parse(family, address);
    return parsed.has_value() && parsed->is_loopback();
  }

  std::shared_ptr<Peer> peer_;
};

}  // namespace stoker
