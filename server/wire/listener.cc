#include "wire/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "wire/proxied_connection.h"

namespace stoker {
namespace {

constexpr int kAcceptsPerTurn = 64;

FileDescriptor Spare() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Listener::Listener(std::vector<FileDescriptor> sockets, Protocol protocol,
                   const std::vector<IpNetwork>& proxies,
                   const std::vector<std::unique_ptr<WireLoop>>& loops,
                   Peers& peers, WireMetrics& metrics)
    : protocol_(std::move(protocol)),
      proxies_(proxies),
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
  Take(std::move(socket), name);
  return true;
}

void Listener::Take(FileDescriptor socket, const sockaddr_storage& name) {
  const std::optional<IpAddress> address = IpAddress::Of(name);
  if (address.has_value()) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  WireLoop& loop = *loops_[next_loop_];
  next_loop_ = (next_loop_ + 1) % loops_.size();
  if (address.has_value() && !proxies_.empty()) {
    return TakeProxied(loop, std::move(socket), *address);
  }
  PeerTicket peer = peers_.Enter(address.has_value() ? address->text() : "");
  if (peer.of_peer() > loop.limits().max_connections_per_peer) {
    return metrics_.Count(Hangup::kPeerLimit);
  }
  loop.Adopt(std::move(peer), [this, socket = std::move(socket)](
                                  WireLoop& its, PeerTicket ticket) mutable {
    return protocol_.Connect(its, std::move(socket), std::move(ticket));
  });
}

void Listener::TakeProxied(WireLoop& loop, FileDescriptor socket,
                           const IpAddress& proxy) {
  const bool trusted = std::any_of(
      proxies_.begin(), proxies_.end(),
      [&proxy](const IpNetwork& one) { return one.Contains(proxy); });
  if (!trusted) {
    metrics_.Count(Hangup::kProxySource);
    return metrics_.ComplainOfProxy(
        loops_.front()->now(),
        absl::StrCat("a connection from ", proxy.text(),
                     " is closed: expected one from a proxy, which "
                     "--proxy-protocol-from names"));
  }
  loop.Adopt(peers_.Enter(""), [this, socket = std::move(socket), proxy](
                                   WireLoop& its, PeerTicket ticket) mutable {
    return std::make_unique<ProxiedConnection>(
        its, std::move(socket), proxy, std::move(ticket), peers_, protocol_);
  });
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
  if (!of_failures_.IsDue(loops_.front()->now())) return;
  log::Error(
      "{} can't take a connection: {}; stoker_connections_ended_total "
      "counts them",
      protocol_.name, std::strerror(error));
}

}  // namespace stoker
