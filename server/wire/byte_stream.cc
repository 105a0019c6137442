#include "wire/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace stoker {
namespace {

long Outcome() {
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return later ? ByteStream::kLater : ByteStream::kBroken;
}

}  // namespace

long SocketStream::Receive(const iovec* pieces, int count) {
  const ssize_t received = readv(socket_.get(), pieces, count);
  return received >= 0 ? received : Outcome();
}

long SocketStream::Send(const iovec* pieces, int count) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<size_t>(count);
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  return sent >= 0 ? sent : Outcome();
}

void SocketStream::EndSending() { shutdown(socket_.get(), SHUT_WR); }

}  // namespace stoker
