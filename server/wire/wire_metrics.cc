#include "wire/wire_metrics.h"

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

}  // namespace

WireMetrics::WireMetrics(MetricRegistry& metrics)
    : metrics_(metrics), connections_(metrics.Gauge(metric::kConnections)) {}

void WireMetrics::Count(Hangup reason) {
  metrics_.Counter(metric::kConnectionsEnded, {{"reason", Name(reason)}}).Add();
}

}  // namespace stoker
