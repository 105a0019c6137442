// The bytes between this process and one peer, in order, both ways: a socket,
// or what encrypts one.
//
// Not thread-safe. Nothing here blocks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace stoker {

class ByteStream {
 public:
  // What a transfer comes to besides a number of bytes.
  static constexpr long kLater = -1;   // not now
  static constexpr long kBroken = -2;  // never again
  // Never again: the peer makes it work for nothing.
  static constexpr long kFlooded = -3;

  virtual ~ByteStream() = default;

  // What to wait on, for epoll.
  virtual int descriptor() const = 0;
  // Into one piece of memory after the other. 0: the peer sends no more.
  virtual long Receive(const iovec* pieces, int count) = 0;
  // No pieces: what it owes.
  virtual long Send(const iovec* pieces, int count) = 0;
  // False: before more has been received, nothing can be sent.
  virtual bool CanSend() const { return true; }
  // How much memory Receive wants at least, so as to take much at a time.
  virtual size_t LeastRoom() const { return 256; }
  // What Receive does next costs the thread more than copying does.
  virtual bool ShakesHands() const { return false; }
  // Names of the peer's certificate, once it is verified; none without one.
  virtual std::vector<std::string> PeerNames() const { return {}; }
  // Tells the peer that no more comes, where that can be told in a way of its
  // own.
  virtual void EndSending() {}
  // Bytes that it has taken wait for the socket.
  virtual bool OwesBytes() const { return false; }
};

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const override { return socket_.get(); }
  long Receive(const iovec* pieces, int count) override;
  long Send(const iovec* pieces, int count) override;
  void EndSending() override;

 private:
  const FileDescriptor socket_;
};

}  // namespace stoker
