#include "wire/wire_metrics.h"

#include "base/log.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

const char* Name(Hangup reason) {
  switch (reason) {
    case Hangup::kLimit:
      return "limit";
    case Hangup::kPeerLimit:
      return "peer_limit";
    case Hangup::kDescriptors:
      return "descriptors";
    case Hangup::kAccept:
      return "accept";
    case Hangup::kHandshake:
      return "handshake";
    case Hangup::kHandshakes:
      return "handshakes";
    case Hangup::kTls:
      return "tls";
    case Hangup::kProtocol:
      return "protocol";
    case Hangup::kCalm:
      return "calm";
    case Hangup::kStalled:
      return "stalled";
    case Hangup::kSilent:
      return "silent";
    case Hangup::kIdle:
      return "idle";
    case Hangup::kAge:
      return "age";
  }
  return "unknown";
}

const char* Name(CallEnd reason) {
  switch (reason) {
    case CallEnd::kHeaders:
      return "headers";
    case CallEnd::kWaiting:
      return "waiting";
    case CallEnd::kKept:
      return "kept";
    case CallEnd::kForbidden:
      return "forbidden";
  }
  return "unknown";
}

constexpr absl::Duration kBetweenTlsHellos = absl::Seconds(10);

}  // namespace

void WireMetrics::ComplainOfTls(MonotonicTime now) {
  int64_t until = quiet_until_.load(std::memory_order_relaxed);
  if (until != 0 && now.ToNanoseconds() < until) return;
  if (!quiet_until_.compare_exchange_strong(
          until, (now + kBetweenTlsHellos).ToNanoseconds())) {
    return;
  }
  log::Warn(
      "a client speaks TLS to a port without it: there is no "
      "--tls-certificate; stoker_connections_ended_total counts them");
}

WireMetrics::WireMetrics(MetricRegistry& metrics)
    : metrics_(metrics), connections_(metrics.Gauge(metric::kConnections)) {}

void WireMetrics::Count(Hangup reason) {
  metrics_.Counter(metric::kConnectionsEnded, {{"reason", Name(reason)}}).Add();
}

void WireMetrics::Count(CallEnd reason) {
  metrics_.Counter(metric::kCallsEnded, {{"reason", Name(reason)}}).Add();
}

}  // namespace stoker
