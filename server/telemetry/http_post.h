// Posts something to an HTTP server, a connection each time: for a thread that
// has nothing else to do. Plain text only.
//
// Thread-safe.
#pragma once

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

  std::string shown() const;
};

// INVALID_ARGUMENT unless it is http://HOST[:PORT][/PATH]. What isn't said is
// `port` and `path`.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url,
                                     std::string_view port,
                                     std::string_view path);

struct HttpReply {
  int status = 0;
  std::string body;  // empty where it came in chunks, or was large
};

// UNAVAILABLE: nobody there, or he isn't through within `limit`, or `gives_up`,
// which is asked a few times a second; DATA_LOSS: what came is no HTTP. The
// name is looked up each time, which has the system's limits.
absl::StatusOr<HttpReply> HttpPost(const HttpUrl& url,
                                   std::string_view content_type,
                                   std::string_view body, absl::Duration limit,
                                   absl::FunctionRef<bool()> gives_up);

}  // namespace stoker
