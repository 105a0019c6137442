#include "wire/wire_server.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/absl_view.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "wire/address.h"
#include "wire/byte_stream.h"
#include "wire/connection.h"
#include "wire/http_connection.h"
#include "wire/listener.h"
#include "wire/loop.h"
#include "wire/peers.h"
#include "wire/wire_metrics.h"

namespace stoker {
namespace {

// Descriptors that are not for connections: models, caches, compile jobs.
constexpr int kOtherDescriptors = 512;

// As many connections as there are descriptors for.
WireLimits Fitted(WireLimits limits) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return limits;
  const auto all =
      static_cast<int>(std::min<rlim_t>(files.rlim_cur, rlim_t{1} << 30));
  limits.max_connections = std::min(limits.max_connections,
                                    std::max(all - kOtherDescriptors, all / 2));
  return limits;
}

}  // namespace

WireServer::WireServer(const WireOptions& options, MakeHandler make_handler,
                       MetricRegistry& metrics, Clock& clock)
    : options_(options),
      make_handler_(std::move(make_handler)),
      clock_(clock),
      metrics_(std::make_unique<WireMetrics>(metrics, options.counts_open)),
      peers_(std::make_unique<Peers>()),
      make_connection_(&Connection::Make) {
  for (int i = 0; i < options_.loops; ++i) {
    loops_.push_back(std::make_unique<WireLoop>(
        absl::StrCat(options_.name, "-", i), Fitted(options_.limits),
        make_handler_, *metrics_, options_.on_stall, clock_));
  }
}

absl::StatusOr<std::unique_ptr<WireServer>> WireServer::Start(
    const WireOptions& options, MakeHandler make_handler,
    MetricRegistry& metrics, Clock& clock) {
  ListeningSockets listening;
  if (!options.address.empty()) {
    ASSIGN_OR_RETURN(listening,
                     Listen(options.address, "gRPC", options.passed));
  }
  std::unique_ptr<WireServer> server(
      new WireServer(options, std::move(make_handler), metrics, clock));
  server->port_ = listening.port;
  server->StartLoops();
  if (options.address.empty()) return server;
  server->AddListener(std::make_unique<Listener>(
      std::move(listening.sockets),
      Protocol{"gRPC", server->make_connection_, options.tls, TlsProtocol::kH2},
      server->options_.proxies, server->loops_, *server->peers_,
      *server->metrics_));
  return server;
}

absl::StatusOr<int> WireServer::ListenHttp(const HttpOptions& options) {
  ASSIGN_OR_RETURN(ListeningSockets listening,
                   Listen(options.address, options.name, options_.passed));
  AddListener(std::make_unique<Listener>(
      std::move(listening.sockets),
      Protocol{options.name, HttpConnection::Maker(options.make_handler),
               options.tls, TlsProtocol::kHttp1},
      options_.proxies, loops_, *peers_, *metrics_));
  return listening.port;
}

void WireServer::AddListener(std::unique_ptr<Listener> listener) {
  absl::MutexLock lock(&mu_);
  listeners_.push_back(std::move(listener));
  listeners_.back()->Open();
}

WireServer::~WireServer() { Shutdown(MonotonicTime::InfinitePast()); }

absl::StatusOr<FileDescriptor> WireServer::Connect() {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends.data()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  loops_.front()->Adopt(
      peers_->EnterWithin(), [this, socket = FileDescriptor(ends[0])](
                                 WireLoop& loop, PeerTicket peer) mutable {
        return make_connection_(
            loop, std::make_unique<SocketStream>(std::move(socket)),
            std::move(peer));
      });
  return FileDescriptor(ends[1]);
}

void WireServer::StartLoops() {
  for (const auto& loop : loops_) loop->Start();
  if (options_.cpus.empty()) return;
  for (size_t i = 0; i < loops_.size(); ++i) {
    loops_[i]->Run([cpu = options_.cpus[i % options_.cpus.size()]] {
      const absl::Status pinned = PinThread({cpu});
      if (!pinned.ok()) {
        log::Warn("a thread of the ports: not confined: {}",
                  Std(pinned.message()));
      }
    });
  }
}

void WireServer::Shutdown(MonotonicTime deadline) {
  absl::MutexLock lock(&mu_);
  if (is_shut_down_) return;
  is_shut_down_ = true;
  std::vector<Listener*> open;  // the loop's thread has no lock
  open.reserve(listeners_.size());
  for (const auto& listener : listeners_) open.push_back(listener.get());
  absl::Notification closed;
  loops_.front()->Run([&closed, &open] {
    for (Listener* const listener : open) listener->Close();
    closed.Notify();
  });
  closed.WaitForNotification();
  for (const auto& loop : loops_) loop->Drain();
  for (const auto& loop : loops_) loop->AwaitDrained(deadline);
  for (const auto& loop : loops_) loop->Join();
}

}  // namespace stoker
