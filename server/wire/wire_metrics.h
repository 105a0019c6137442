// What the transport counts.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/monotonic_time.h"
#include "metrics/metrics.h"
#include "wire/rare_line.h"

namespace stoker {

// Why a connection was not taken, or was ended by this side; the label `reason`
// of the metric.
enum class Hangup {
  kLimit,        // too many connections, and none of them idle
  kPeerLimit,    // too many of that address
  kDescriptors,  // none left
  kAccept,       // the system refused for another reason
  kHandshake,    // didn't speak HTTP/2 in time
  kHandshakes,   // made room for other handshakes
  kTls,          // spoke TLS to a port without
  kProxySource,  // may not send a PROXY header
  kProxyHeader,  // sent none in time, or none that can be read
  kProtocol,     // broke its rules
  kFrames,       // too many that move nothing
  kResets,       // of its streams, by it or because of it
  kHeaders,      // far too many bytes or frames of them, or half ones
  kSettings,     // too many in one frame
  kAcks,         // too many wait for it to read them
  kStalled,      // doesn't read, or stops amid headers
  kSilent,       // doesn't answer pings
  kIdle,         // without calls, for too long or to make room
  kAge,          // old enough
};

// Why a call was ended by the transport; likewise.
enum class CallEnd {
  kHeaders,    // too many bytes of them
  kTooLong,    // a message was longer than there may be
  kWaiting,    // without a message, made room for others
  kKept,       // too much waits to be read on all streams
  kForbidden,  // its handler says that it may not go on
};

class WireMetrics {
 public:
  // `counts_open`: false: open connections are left out, because whoever reads
  // the figure has one.
  explicit WireMetrics(MetricRegistry& metrics, bool counts_open = true);

  void Count(Hangup reason);
  void Count(CallEnd reason);
  // Say so, at a bounded rate.
  void ComplainOfTls(MonotonicTime now);
  // `begun`: the first that the peer sent.
  void ComplainOfProtocol(MonotonicTime now, const std::string& peer,
                          std::string_view begun);
  void ComplainOfProxy(MonotonicTime now, const std::string& what);
  void Opened() { CountOpen(1); }
  void Closed() { CountOpen(-1); }
  // A connection has as many calls as it may.
  void CountFull() { full_.Add(); }

 private:
  void CountOpen(int more) {
    if (connections_.has_value()) connections_->Add(more);
  }

  MetricRegistry& metrics_;
  std::optional<Gauge> connections_;
  Counter full_;
  RareLine of_tls_;
  RareLine of_protocols_;
  RareLine of_proxies_;
};

}  // namespace stoker
