// The HTTP endpoint of the pages that people and scrapers read. Nothing can be
// changed through it. A thread of its own serves it, until the very end: the
// page is there while requests drain, and however busy their threads are.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "access/gate.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "status/page.h"
#include "wire/limits.h"
#include "wire/tls_context.h"
#include "wire/wire_server.h"

namespace stoker {

class PassedSockets;

struct PageServerOptions {
  std::string address;  // "host:port" (port 0: any), "unix:PATH" or "fd:NAME"
  PassedSockets* passed = nullptr;  // where the last is found; null: nowhere
  TlsContext* tls = nullptr;        // null: plain text
  Gate* gate = nullptr;             // null: everybody may read
  WireLimits limits;
};

class PageServer {
 public:
  // Answers GET and HEAD of these paths; others get 404 and 405 with a line of
  // text. INVALID_ARGUMENT: that is no address; UNAVAILABLE: it can't be bound.
  // What is passed by reference outlives it. Its connections are not counted
  // among the open ones: who reads the figure would change it.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(
      const PageServerOptions& options, Pages pages, LatePages late_pages,
      MetricRegistry& metrics, Clock& clock);

  int port() const { return port_; }

 private:
  PageServer(Pages pages, LatePages late_pages)
      : pages_(std::move(pages)), late_pages_(std::move(late_pages)) {}

  const Pages pages_;
  const LatePages late_pages_;
  std::unique_ptr<WireServer> wire_;  // ends first
  int port_ = 0;
};

}  // namespace stoker
