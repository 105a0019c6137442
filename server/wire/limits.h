// What one server allows its peers. Plain values; what each is for stands
// beside it, and what becomes of who passes it.
//
// Each has an option (main/wire_options.cc), a metric that counts who passes it
// and a line in config/README.md: tests/limits_reference_test.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace stoker {

struct WireLimits {
  // ---- of a server
  // Connections; beyond them the ones without calls that have been silent for
  // longest are closed, and where there are none, the newest.
  int max_connections = 10'000;
  // Of one address; unix sockets have none. The newest are closed.
  int max_connections_per_peer = 10'000;

  // TLS handshakes that are under way on each loop. Beyond them the peer that
  // has been silent for longest goes, and where none is silent, the newest.
  size_t max_handshakes = 1'000;

  // Calls whose first message hasn't come. Beyond them the one that has waited
  // for longest is refused: one that is not idle has no time to get there.
  int max_waiting_calls = 10'000;

  // Bytes that calls of one loop have received before they read them, beyond
  // what their first window lets through, and of headers that are not whole.
  // Beyond them the newest call is refused, and a connection with such headers
  // ends.
  int64_t max_kept_bytes = 16 << 20;

  // ---- of a message
  size_t max_message_bytes = INT32_MAX;

  // ---- of a connection
  // Calls that are open at a time. Far more than a queue holds, so that what is
  // too much is refused with a reason instead of waiting at the client.
  uint32_t max_calls = 10'000;
  // Names, values and 32 bytes for each, as HTTP/2 counts. The call is refused,
  // the connection goes on; until they are so many times as much, which a few
  // bytes that name a long entry of the table again and again can make them.
  uint32_t max_header_bytes = 16 << 10;
  size_t header_excess = 16;
  // Frames that move nothing: empty data, priorities, windows, pings, settings,
  // unknown ones. So many at once, so many more per second and for each message
  // or piece of an answer that passes. Then the connection ends.
  double useless_frames = 4'000;
  double useless_frames_per_second = 100;
  // Streams that the client resets, or that it makes us reset.
  uint64_t resets = 1'000;
  uint64_t resets_per_second = 33;
  // Frames that one list of headers may come in, besides the first.
  size_t max_continuations = 8;
  // Acknowledgements that wait because the peer doesn't read.
  size_t max_waiting_acks = 200;
  // Entries of one SETTINGS frame.
  size_t max_settings = 32;

  // ---- time
  // How long a client may keep the server waiting with a message begun or an
  // answer half taken, counted from the last time that it made progress:
  // min_bytes of it, or the rest.
  absl::Duration stall_limit = absl::Seconds(60);
  size_t progress_bytes = 64 << 10;
  // Until the client has spoken HTTP/2, behind TLS where there is that.
  absl::Duration handshake_limit = absl::Seconds(10);
  // A peer that has been silent for so long is asked whether it is there, and
  // has as long to answer.
  absl::Duration keepalive = absl::Seconds(30);
  // A connection without calls is closed after, and one of that age, too: it
  // takes no more calls, and those that are open have `age_grace` to end.
  absl::Duration max_idle = absl::InfiniteDuration();
  absl::Duration max_age = absl::InfiniteDuration();
  absl::Duration age_grace = absl::Seconds(30);
};

}  // namespace stoker
