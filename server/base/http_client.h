// Asks an HTTP server something, on a connection of its own: for a thread that
// has nothing else to do. Plain text only.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

struct HttpUrl {
  std::string host;  // a name or an address, without brackets
  std::string port;
  std::string path;  // with its query

  std::string authority() const;  // HOST:PORT, as URLs and requests have it
  std::string shown() const;
};

// INVALID_ARGUMENT unless it is http://HOST[:PORT][/PATH]. What isn't said is
// `port` and `path`.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url,
                                     std::string_view port,
                                     std::string_view path);

// Sends a request and returns what came, head and body: until it is as long as
// its head says, the other end closes, or it has `most` bytes. UNAVAILABLE:
// nobody there, or he isn't through within `limit`, or `gives_up`, which is
// asked a few times a second. The name is looked up each time, which has the
// system's limits.
absl::StatusOr<std::string> HttpExchange(const HttpUrl& url,
                                         std::string_view head,
                                         std::string_view body, size_t most,
                                         absl::Duration limit,
                                         absl::FunctionRef<bool()> gives_up);

struct HttpReply {
  int status = 0;
  std::string body;  // empty where it came in chunks, or was large
};

// The errors of HttpExchange; DATA_LOSS: what came is no HTTP.
absl::StatusOr<HttpReply> HttpPost(const HttpUrl& url,
                                   std::string_view content_type,
                                   std::string_view body, absl::Duration limit,
                                   absl::FunctionRef<bool()> gives_up);

}  // namespace stoker
