#include "wire/wire_metrics.h"

#include "absl/strings/escaping.h"
#include "base/absl_view.h"
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
    case Hangup::kProxySource:
      return "proxy_source";
    case Hangup::kProxyHeader:
      return "proxy_header";
    case Hangup::kProtocol:
      return "protocol";
    case Hangup::kFrames:
      return "frames";
    case Hangup::kResets:
      return "resets";
    case Hangup::kHeaders:
      return "headers";
    case Hangup::kSettings:
      return "settings";
    case Hangup::kAcks:
      return "acks";
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
    case CallEnd::kTooLong:
      return "too_long";
    case CallEnd::kWaiting:
      return "waiting";
    case CallEnd::kKept:
      return "kept";
    case CallEnd::kForbidden:
      return "forbidden";
  }
  return "unknown";
}

}  // namespace

void WireMetrics::ComplainOfTls(MonotonicTime now) {
  if (!of_tls_.IsDue(now)) return;
  log::Warn(
      "a client speaks TLS to a port without it: there is no "
      "--tls-certificate, or for the status page no --metrics-tls; "
      "stoker_connections_ended_total counts them");
}

void WireMetrics::ComplainOfProtocol(MonotonicTime now, const std::string& peer,
                                     std::string_view begun) {
  constexpr size_t kShown = 24;
  if (!of_protocols_.IsDue(now)) return;
  log::Warn(
      "a client ({}) speaks no HTTP/2 to the port of gRPC, but begins with "
      "'{}'; HTTP/1.1 is for --http-listen; stoker_connections_ended_total "
      "counts them",
      peer, absl::CHexEscape(Absl(begun.substr(0, kShown))));
}

void WireMetrics::ComplainOfProxy(MonotonicTime now, const std::string& what) {
  if (!of_proxies_.IsDue(now)) return;
  log::Warn("{}; stoker_connections_ended_total counts them", what);
}

WireMetrics::WireMetrics(MetricRegistry& metrics, bool counts_open)
    : metrics_(metrics), full_(metrics.Counter(metric::kConnectionsFull)) {
  if (counts_open) connections_ = metrics.Gauge(metric::kConnections);
}

void WireMetrics::Count(Hangup reason) {
  metrics_.Counter(metric::kConnectionsEnded, {{"reason", Name(reason)}}).Add();
}

void WireMetrics::Count(CallEnd reason) {
  metrics_.Counter(metric::kCallsEnded, {{"reason", Name(reason)}}).Add();
}

}  // namespace stoker
