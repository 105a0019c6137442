#include "wire/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "wire/byte_stream.h"
#include "wire/tls_stream.h"

namespace stoker {
namespace {

constexpr int kAcceptsPerTurn = 64;

constexpr absl::Duration kBetweenComplaints = absl::Seconds(10);

FileDescriptor Spare() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Without its port; empty of a unix socket.
std::string AddressOf(const sockaddr_storage& name) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const void* address = nullptr;
  if (name.ss_family == AF_INET) {
    address = &reinterpret_cast<const sockaddr_in&>(name).sin_addr;
  } else if (name.ss_family == AF_INET6) {
    address = &reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
  } else {
    return "";
  }
  inet_ntop(name.ss_family, address, text.data(), text.size());
  return text.data();
}

}  // namespace

Listener::Listener(std::vector<FileDescriptor> sockets, Protocol protocol,
                   const std::vector<std::unique_ptr<WireLoop>>& loops,
                   Peers& peers, WireMetrics& metrics)
    : protocol_(std::move(protocol)),
      loops_(loops),
      peers_(peers),
      metrics_(metrics),
      reserve_(Spare()) {
  for (FileDescriptor& socket : sockets) {
    sockets_.push_back(std::make_unique<Socket>(*this, std::move(socket)));
  }
}

Listener::~Listener() = default;

void Listener::Open() {
  for (const auto& socket : sockets_) {
    loops_.front()->Watch(socket->descriptor(), EPOLLIN, *socket);
  }
}

void Listener::Close() {
  for (const auto& socket : sockets_) {
    loops_.front()->Unwatch(socket->descriptor());
  }
  sockets_.clear();
}

void Listener::Socket::OnReady(uint32_t /*events*/) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (!listener_.AcceptOne(descriptor())) return;
  }
}

bool Listener::AcceptOne(int descriptor) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  FileDescriptor socket(accept4(descriptor, reinterpret_cast<sockaddr*>(&name),
                                &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.ok()) {
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    // The peer of this one has gone; the next may be well.
    if (error == ECONNABORTED || error == EINTR || error == EPROTO) return true;
    OnFailure(descriptor, error);
    return false;
  }
  PeerTicket peer = peers_.Enter(AddressOf(name));
  if (peer.of_peer() > loops_.front()->limits().max_connections_per_peer) {
    metrics_.Count(Hangup::kPeerLimit);
    return true;
  }
  if (name.ss_family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  std::unique_ptr<ByteStream> stream;
  if (protocol_.tls == nullptr) {
    stream = std::make_unique<SocketStream>(std::move(socket));
  } else {
    stream = std::make_unique<TlsStream>(std::move(socket), *protocol_.tls,
                                         protocol_.alpn, peer.peer());
  }
  loops_[next_loop_]->Adopt(std::move(stream), std::move(peer), protocol_.make);
  next_loop_ = (next_loop_ + 1) % loops_.size();
  return true;
}

// What can't be kept is taken and closed: left in the queue, it would keep the
// thread awake and the port shut.
void Listener::OnFailure(int descriptor, int error) {
  const bool out = error == EMFILE || error == ENFILE;
  metrics_.Count(out ? Hangup::kDescriptors : Hangup::kAccept);
  Complain(error);
  if (!out || !reserve_.ok()) {
    if (!reserve_.ok()) reserve_ = Spare();
    return;
  }
  { const FileDescriptor freed = std::move(reserve_); }
  reserve_ = FileDescriptor(-1);
  { const FileDescriptor unwanted(accept(descriptor, nullptr, nullptr)); }
  reserve_ = Spare();
}

void Listener::Complain(int error) {
  const MonotonicTime now = loops_.front()->now();
  if (now < complain_again_) return;
  complain_again_ = now + kBetweenComplaints;
  log::Error(
      "{} can't take a connection: {}; stoker_connections_ended_total "
      "counts them",
      protocol_.name, std::strerror(error));
}

}  // namespace stoker
