#include "metrics/page_server.h"

#include <netdb.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace stoker {

namespace {

// "127.0.0.1" of "127.0.0.1:0", "::1" of "[::1]:0", "" of "0".
std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Opens a connection and closes it again.
void Knock(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(),
                  absl::StrCat(port).c_str(), &hints, &found) != 0) {
    return;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    // The outcome is irrelevant: a connection in progress wakes the listener
    // too.
    (void)connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(
    const std::string& address,
    const std::shared_ptr<prometheus::Registry>& registry) {
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    exposer->RegisterCollectable(registry);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) {
      return absl::UnavailableError(
          absl::StrCat("no port is open for metrics at ", address));
    }
    return std::unique_ptr<PageServer>(
        new PageServer(std::move(exposer), HostOf(address), ports.front()));
  } catch (const std::exception& e) {
    return absl::UnavailableError(
        absl::StrCat("can't serve metrics at ", address, ": ", e.what()));
  }
}

PageServer::PageServer(std::unique_ptr<prometheus::Exposer> exposer,
                       std::string host, int port)
    : exposer_(std::move(exposer)), host_(std::move(host)), port_(port) {}

// civetweb's listener looks at its stop flag after each connection, or after
// two seconds without one. Knocking ends that wait.
PageServer::~PageServer() {
  absl::Notification stopped;
  std::thread knocking([this, &stopped] {
    do {
      Knock(host_, port_);
    } while (!stopped.WaitForNotificationWithTimeout(absl::Milliseconds(5)));
  });
  exposer_.reset();
  stopped.Notify();
  knocking.join();
}

}  // namespace stoker
