// Makes nghttp2's sessions, and hands what they report to their connection.
#pragma once

#include <nghttp2/nghttp2.h>

#include "wire/limits.h"

namespace stoker {

class Connection;

class SessionCallbacks {
 public:
  // The caller deletes it, and before the connection.
  static nghttp2_session* NewSession(Connection& connection,
                                     const WireLimits& limits);

 private:
  static nghttp2_session_callbacks* Make();
};

}  // namespace stoker
