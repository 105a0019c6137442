// A connection of a loop that no listener has brought.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "base/file_descriptor.h"
#include "wire/byte_stream.h"
#include "wire/connection.h"
#include "wire/loop.h"

namespace stoker {

// The peer's end, which doesn't block and has said nothing yet.
inline FileDescriptor ConnectTo(WireLoop& loop, Peers& peers) {
  int pair[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  loop.Adopt(peers.Enter(""), [socket = FileDescriptor(pair[1])](
                                  WireLoop& its, PeerTicket ticket) mutable {
    return Connection::Make(its,
                            std::make_unique<SocketStream>(std::move(socket)),
                            std::move(ticket));
  });
  return FileDescriptor(pair[0]);
}

}  // namespace stoker
