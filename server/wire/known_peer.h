// A connection's peer, made when somebody first asks for it: most servers never
// do.
//
// Used on the connection's loop only.
#pragma once

#include <memory>

#include "wire/byte_stream.h"
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
      peer_->names = stream.PeerNames();
    }
    return peer_;
  }

 private:
  std::shared_ptr<Peer> peer_;
};

}  // namespace stoker
