#include "wire/proxied_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {

ProxiedConnection::ProxiedConnection(WireLoop& loop, FileDescriptor socket,
                                     IpAddress proxy, PeerTicket ticket,
                                     Peers& peers, const Protocol& protocol)
    : loop_(loop),
      socket_(std::move(socket)),
      proxy_(proxy),
      ticket_(std::move(ticket)),
      peers_(peers),
      protocol_(protocol),
      born_(loop.now()),
      heard_(loop.now()) {
  loop_.metrics().Opened();
}

ProxiedConnection::~ProxiedConnection() {
  if (!over_) HangUp();
  loop_.metrics().Closed();
}

void ProxiedConnection::Begin() { loop_.Watch(socket_.get(), EPOLLIN, *this); }

void ProxiedConnection::OnReady(uint32_t) {
  if (over_) return;
  std::array<char, kMaxProxyHeader> memory;
  const size_t before = header_.size();
  // What comes behind the header is another's to read: it may be TLS.
  const ssize_t came =
      recv(socket_.get(), memory.data(), memory.size() - before, MSG_PEEK);
  if (came < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // Balancers that look whether anybody is here say nothing else.
  if (came <= 0 && before == 0) return HangUp();
  if (came <= 0) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("expected a whole PROXY header, got ", before,
                     " bytes and the connection's end")));
  }
  heard_ = loop_.now();
  header_.append(memory.data(), static_cast<size_t>(came));
  const absl::StatusOr<std::optional<ProxyHeader>> header =
      ReadProxyHeader(header_);
  if (!header.ok()) return Refuse(header.status());
  if (!header->has_value()) return Consume(static_cast<size_t>(came));
  Consume((*header)->size - before);
  GiveWay(**header);
}

// What is left in the socket would wake the loop again and again.
void ProxiedConnection::Consume(size_t size) {
  std::array<char, kMaxProxyHeader> memory;
  while (size > 0) {
    const ssize_t taken =
        recv(socket_.get(), memory.data(), std::min(size, memory.size()), 0);
    if (taken <= 0) return HangUp();
    size -= static_cast<size_t>(taken);
  }
}

void ProxiedConnection::GiveWay(const ProxyHeader& header) {
  if (over_) return;
  PeerTicket peer = peers_.Enter(header.source.value_or(proxy_).text());
  if (peer.of_peer() > loop_.limits().max_connections_per_peer) {
    return HangUp(Hangup::kPeerLimit);
  }
  HangUp();  // of this object only: the socket lives on
  loop_.Add(protocol_.Connect(loop_, std::move(socket_), std::move(peer)));
}

void ProxiedConnection::Refuse(const absl::Status& why) {
  loop_.metrics().ComplainOfProxy(
      loop_.now(), absl::StrCat("a connection from ", proxy_.text(),
                                " is closed: ", why.message()));
  HangUp(Hangup::kProxyHeader);
}

void ProxiedConnection::Tick(MonotonicTime now) {
  if (over_ || now - born_ < loop_.limits().handshake_limit) return;
  Refuse(absl::DeadlineExceededError(
      absl::StrCat("expected a whole PROXY header within ",
                   absl::FormatDuration(loop_.limits().handshake_limit),
                   ", got ", header_.size(), " bytes of one")));
}

void ProxiedConnection::HangUp(Hangup reason) {
  loop_.metrics().Count(reason);
  HangUp();
}

void ProxiedConnection::HangUp() {
  if (over_) return;
  over_ = true;
  loop_.Unwatch(socket_.get());
  loop_.Bury(*this);
}

}  // namespace stoker
