// What is spoken over the connections that one address accepts.
//
// Constant; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "wire/byte_stream.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/tls_context.h"
#include "wire/tls_stream.h"

namespace stoker {

struct Protocol {
  std::string name;  // for people: "gRPC"
  MakeConnection make;
  TlsContext* tls = nullptr;  // null: plain text
  TlsProtocol alpn = TlsProtocol::kH2;

  // It outlives the connection.
  std::unique_ptr<PeerConnection> Connect(WireLoop& loop, FileDescriptor socket,
                                          PeerTicket peer) const {
    std::unique_ptr<ByteStream> stream;
    if (tls == nullptr) {
      stream = std::make_unique<SocketStream>(std::move(socket));
    } else {
      stream = std::make_unique<TlsStream>(std::move(socket), *tls, alpn,
                                           peer.peer());
    }
    return make(loop, std::move(stream), std::move(peer));
  }
};

}  // namespace stoker
