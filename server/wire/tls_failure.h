// Why a TLS handshake came to nothing; the label `reason` of the metric.
#pragma once

namespace stoker {

enum class TlsFailure {
  kPlainText,      // what came was no TLS
  kVersion,        // too old
  kCipher,         // none that both have
  kAlpn,           // the client doesn't offer "h2"
  kNoCertificate,  // of the client, which has to have one
  kCertificate,    // the client's: not of a trusted authority, or wrong
  kExpired,        // the client's
  kName,           // the client's is none of those that are let in
  kRejected,       // the client doesn't trust this server
  kClosed,         // by the client, on the way
  kUnfinished,     // not in time, or the server stops
  kOther,
};

}  // namespace stoker
